//go:build root && clients

package slurm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The clients are not changed: they are Debian's, and believe that they talk to
// Slurm.
const clientsInstall = "apt-get install -y --no-install-recommends snakemake toil cwltool coop-computing-tools parallel"

const clientWithin = 15 * time.Minute

// inInstance runs a script with the shims in front of PATH, inside an instance
// of four launchers on this machine.
func inInstance(t *testing.T, script string, files map[string]string) (dir, out string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bin")
	if err := build(bin); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "fc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "filch"), "up", "--nodes", "4", "--slots", "2", "--", "bash", "-c",
		`filch shim install --slurm shims >/dev/null && export PATH=$PWD/shims:$PATH && `+script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "FILCH_LOCAL="+dir, "FILCH_HOME="+filepath.Join(dir, "home"), "HOME="+dir, "USER=root",
		"FILCH_FILCHD="+filepath.Join(bin, "filchd"), "PATH="+bin+":/usr/local/bin:/usr/bin:/bin")
	cmd.WaitDelay = 10 * time.Second
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return dir, string(b)
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%s is not installed: %s", program, clientsInstall)
	}
}

// snakefile has a rule for each of some parts, and a rule that counts them.
func snakefile(parts int) map[string]string {
	return map[string]string{"Snakefile": strings.ReplaceAll(snakerules, "PARTS", strconv.Itoa(parts))}
}

const snakerules = `rule all:
    input: "sum"
rule part:
    output: "part.{i}"
    shell: "echo {wildcards.i} $SLURM_JOB_ID > {output}"
rule sum:
    input: expand("part.{i}", i=range(PARTS))
    output: "sum"
    shell: "cat {input} | wc -l > {output}"
`

func checkParts(t *testing.T, dir string, parts int) {
	t.Helper()
	if b, _ := os.ReadFile(filepath.Join(dir, "sum")); strings.TrimSpace(string(b)) != strconv.Itoa(parts) {
		t.Errorf("the sum is %q, want %d", b, parts)
	}
	for i := range parts {
		name := "part." + strconv.Itoa(i)
		b, _ := os.ReadFile(filepath.Join(dir, name))
		if f := strings.Fields(string(b)); len(f) != 2 {
			t.Errorf("%s is %q, want its number and a job's", name, b)
		}
	}
}

// Snakemake 7.21 asks for the states of three jobs in 100 s (SlurmExecutor's
// max_status_checks_per_second is 0.03, whatever the option says): with 19 parts the workflow
// takes 740 s, with three it takes 200 s.
func TestSnakemakeSlurm(t *testing.T) {
	need(t, "snakemake")
	const parts = 3
	dir, out := inInstance(t, `SBATCH_ACCOUNT=proj snakemake --slurm --default-resources slurm_account=proj slurm_partition=filch runtime=5 mem_mb=400 -j 20 --latency-wait 10 all 2>&1 && sacct -n -X -P -o Account | sort -u`, snakefile(parts))
	checkParts(t, dir, parts)
	match(t, out, `^proj$`)
	match(t, out, `5 of 5 steps \(100%\) done`)
}

func TestSnakemakeCluster(t *testing.T) {
	need(t, "snakemake")
	const parts = 19
	dir, out := inInstance(t, `snakemake --cluster 'sbatch --parsable -o /dev/null' -j 8 --latency-wait 10 all 2>&1`, snakefile(parts))
	checkParts(t, dir, parts)
	match(t, out, `steps \(100%\) done`)
}

const makeflow = `sum: part.0 part.1 part.2
	cat part.0 part.1 part.2 >sum
part.0: part.sh
	sh part.sh 0 >part.0
part.1: part.sh
	sh part.sh 1 >part.1
part.2: part.sh
	sh part.sh 2 >part.2
`

// Makeflow submits each command with sbatch.
func TestMakeflow(t *testing.T) {
	need(t, "makeflow")
	dir, _ := inInstance(t, `makeflow -T slurm --log-verbose Makeflow 2>&1 && cat sum`, map[string]string{"Makeflow": makeflow, "part.sh": "echo $1 $SLURM_JOB_ID\n"})
	b, _ := os.ReadFile(filepath.Join(dir, "sum"))
	if f := strings.Fields(string(b)); len(f) != 6 || f[0] != "0" || f[4] != "2" {
		t.Errorf("the sum is %q, want three numbers with three jobs", b)
	}
}

// GNU parallel runs its commands on the nodes over filch ssh.
func TestParallel(t *testing.T) {
	need(t, "parallel")
	_, out := inInstance(t, `parallel --will-cite --ssh 'filch ssh' -S 2/n1,2/n2,2/n4 'echo {} $FILCH_NODE' ::: $(seq 12) </dev/null 2>&1 | sort -n`, nil)
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if f := strings.Fields(line); len(f) != 2 || f[0] != strconv.Itoa(i+1) || f[1] != "n1" && f[1] != "n2" && f[1] != "n4" {
			t.Errorf("line %d is %q", i+1, line)
		}
	}
}

const toilScript = `from toil.common import Toil
from toil.job import Job

def part(job, i):
    return i

def total(job, parts):
    return sum(parts)

def begin(job):
    parts = [job.addChildJobFn(part, i, memory="50M", cores=1, disk="10M").rv() for i in range(18)]
    return job.addFollowOnJobFn(total, parts, memory="50M", cores=1, disk="10M").rv()

if __name__ == "__main__":
    options = Job.Runner.getDefaultArgumentParser().parse_args()
    with Toil(options) as toil:
        print("total", toil.start(Job.wrapJobFn(begin, memory="50M", cores=1, disk="10M")))
`

func TestToil(t *testing.T) {
	need(t, "toil")
	_, out := inInstance(t, `python3 twenty.py --batchSystem slurm --disableCaching --statePollingWait 1 ./store 2>toil.log || { tail -40 toil.log; exit 1; }`, map[string]string{"twenty.py": toilScript})
	match(t, out, `^total 153$`)
}

const cwlTool = `cwlVersion: v1.0
class: CommandLineTool
baseCommand: [srun, -n1, echo]
inputs:
  text: {type: string, inputBinding: {position: 1}}
outputs:
  out: stdout
stdout: out.txt
`

const cwlFlow = `cwlVersion: v1.0
class: Workflow
requirements: {ScatterFeatureRequirement: {}}
inputs:
  texts: string[]
outputs:
  outs: {type: "File[]", outputSource: say/out}
steps:
  say:
    run: say.cwl
    scatter: text
    in: {text: texts}
    out: [out]
`

func TestCwltool(t *testing.T) {
	need(t, "cwltool")
	dir, _ := inInstance(t, `cwltool --parallel --preserve-entire-environment flow.cwl texts.json >outs.json 2>cwl.log || { tail -40 cwl.log; exit 1; }`, map[string]string{
		"say.cwl": cwlTool, "flow.cwl": cwlFlow,
		"texts.json": `{"texts": ["` + strings.Join(strings.Fields("a b c d e f g h i j k l m n o p q r s t"), `","`) + `"]}`,
	})
	b, _ := os.ReadFile(filepath.Join(dir, "outs.json"))
	if got := strings.Count(string(b), `"class": "File"`); got != 20 {
		t.Errorf("%d outputs, want 20:\n%s", got, b)
	}
}
