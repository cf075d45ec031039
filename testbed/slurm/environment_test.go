//go:build root

package slurm_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/testbed/slurm"
)

// dump writes the variables of Slurm in a batch script and in its steps.
const dump = `#!/bin/bash
cd $HOME/$1 || exit
dump() { env | grep -E '^(S(LURM|RUN|BATCH)|CUDA_|GPU_DEVICE|ROCR_|HIP_|ZE_)' | sort; }
export -f dump
set -- $1 $2$SLURM_ARRAY_TASK_ID
dump >$2.script
srun -n1 -N1 bash -c dump >$2.one
srun bash -c 'dump >'$2'.all.$SLURM_PROCID'
`

// differ are the variables that are not as Slurm sets them, with the reason; docs/shims.md
// lists the same names.
var differ = map[string]string{
	"SLURM_CONF":                           "filch has no slurm.conf",
	"SLURM_WORKING_CLUSTER":                "filch has no slurmctld",
	"SLURM_SRUN_COMM_PORT":                 "no port of srun",
	"SLURM_STEP_LAUNCHER_PORT":             "no port of srun",
	"SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0": "a part of heterogeneous jobs",
	"SLURM_TASK_PID":                       "not set for ranks",
	"SLURM_JOB_ACCOUNT":                    "always set: filch",
	"SLURM_JOB_PARTITION":                  "always filch",
	"SLURM_JOB_START_TIME":                 "set as newer Slurm does",
	"SLURM_JOB_END_TIME":                   "set as newer Slurm does",
	"SLURM_CPUS_ON_NODE":                   "the CPUs of the step, for a rank",
}

// differGPUs are such variables of jobs with GPUs.
var differGPUs = map[string]string{
	"GPU_DEVICE_ORDINAL": "not set: ROCR_VISIBLE_DEVICES has the GPUs of AMD",
	"SLURMD_TRES_BIND":   "not set: the keeper gives each rank its GPUs",
}

// another are variables with another value for each job.
var another = []string{
	"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID", "SLURM_SUBMIT_HOST", "SLURM_PRIO_PROCESS", "SLURM_SUBMIT_DIR",
	"SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST", // any address of this machine
}

// TestShimEnvironment compares the environments of a batch script and its steps with those
// of Slurm.
func TestShimEnvironment(t *testing.T) {
	newRig(t).environments(differ, []string{"-N4", "-n16"}, []dumped{
		{"shape", "-N4 -n16 --mem=100M -J nm -t 5 -m cyclic"},
		{"plain", "-n1"},
		{"array", "-N4 -n4 --array=3-5:2"},
		{"nodes", "-N2 -w n[1-2]"},
		{"exclusive", "-N2 -w n[1-2] --exclusive"},
		{"whole", "-N1 -n2 --exclusive"},
		{"none", "-n2 --export=NONE"},
		{"names", "-n2 --export=FOO=bar"},
		{"over", "-N1 -O -n9"},
		{"plane", "-N4 -n16 -c1 --ntasks-per-node=4 --mem-per-cpu=10M -m plane=2"},
	})
}

// TestShimGPUEnvironment does the same for jobs with GPUs, of nodes with devices that Slurm
// takes for GPUs.
func TestShimGPUEnvironment(t *testing.T) {
	newRig(t) // the binaries
	all := maps.Clone(differ)
	maps.Copy(all, differGPUs)
	delete(all, "SLURM_JOB_END_TIME") // these jobs have no time limit
	r := newRigOn(t, slurm.New(t, slurm.Options{Nodes: 2, CPUs: 4, GPUs: 2}))
	r.environments(all, []string{"-N2", "-n8", "--gres=gpu:2"}, []dumped{
		{"gres", "-N2 -n4 --ntasks-per-node=2 --gres=gpu:2"},
		{"gpus", "-N1 -w n1 -n2 --gpus=2"},
		{"gpus-per-node", "-N2 -n4 --ntasks-per-node=2 --gpus-per-node=1"},
		{"gpus-per-task", "-N1 -w n1 -n2 --gpus-per-task=1"},
	})
}

// dumped is a batch job, with its options.
type dumped struct{ name, options string }

// environments runs batch jobs with Slurm and, in an allocation, with filch, and compares
// their variables: the variables of differ have other values, and each has so somewhere.
func (r *rig) environments(differ map[string]string, allocation []string, jobs []dumped) {
	t := r.t
	t.Helper()
	r.shims("--slurm")
	r.wait = linesWithin
	r.write("dump.sh", dump)
	ours := "unset CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES ZE_AFFINITY_MASK GPU_DEVICE_ORDINAL\n" + // of the allocation
		"export PATH=$HOME/shims:$PATH\ncd $HOME\n"
	for _, d := range []string{"real", "ours"} {
		if err := os.Mkdir(filepath.Join(r.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, j := range jobs {
		r.await(r.sbatch(append(strings.Fields("--wait "+j.options), filepath.Join(r.dir, "dump.sh"), "real", j.name)...))
		ours += "sbatch --wait -o none " + j.options + " dump.sh ours " + j.name + "\n"
	}
	r.write("ours.sh", ours)
	if out, code := r.batch(`filch up --slots 4 -- bash $HOME/ours.sh`, allocation...); code != 0 {
		t.Fatalf("got exit code %d: %s", code, out)
	}
	files, _ := filepath.Glob(filepath.Join(r.dir, "real", "*"))
	if len(files) < len(jobs)*3 {
		t.Fatalf("only %d dumps of Slurm: %s", len(files), files)
	}
	seen, same := map[string]bool{}, 0
	for _, f := range files {
		name := filepath.Base(f)
		real, got := variables(r.read("real/"+name)), variables(r.read("ours/"+name))
		for v := range real {
			if _, ok := got[v]; !ok {
				got[v] = "(not set)"
			}
		}
		for v, value := range got {
			want, ok := real[v]
			switch {
			case !ok && differ[v] == "":
				t.Errorf("%s: %s=%s, and Slurm sets no such variable", name, v, value)
			case value == want || slices.Contains(another, v) && ok && value != "(not set)" && value != "":
				same++
			case differ[v] == "":
				t.Errorf("%s: %s is %s, and %s in Slurm", name, v, value, want)
			default:
				seen[v] = true
			}
		}
	}
	docs, err := os.ReadFile("../../docs/shims.md")
	if err != nil {
		t.Fatal(err)
	}
	for v := range differ {
		if !seen[v] {
			t.Errorf("%s is as in Slurm: take the variable out of the list", v)
		}
		if !strings.Contains(string(docs), "`"+v+"`") {
			t.Errorf("docs/shims.md does not name %s", v)
		}
	}
	t.Logf("figure: %d variables in %d dumps are as in Slurm, %d differ by name", same, len(files), len(differ))
	r.clean()
}

func variables(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			all[name] = value
		}
	}
	return all
}
