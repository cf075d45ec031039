package spec_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
)

// allocation is what sbatch -N4 -n16 leaves in the environment.
var allocation = map[string]string{
	"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_JOB_NUM_NODES": "4", "SLURM_NNODES": "4", "SLURM_NTASKS": "16", "SLURM_NPROCS": "16",
}

func TestSrunTakesTheShapeOfItsAllocation(t *testing.T) {
	for line, want := range map[string]string{
		"a":                     "-n 16 -N 4 even",
		"-n 6 a":                "-n 6 -N 4 even",
		"-n 2 a":                "-n 2 -N 2 | can't run 2 processes on 4 nodes, setting nnodes to 2",
		"-n 1 -w n3 a":          "-n 1 -N 1 -w n3 | can't run 1 processes on 4 nodes, setting nnodes to 1",
		"-n 3 -w n3 a":          "-n 3 -N 3 -w n[1-3] | can't run 3 processes on 4 nodes, setting nnodes to 3",
		"-N 2 -n 4 a":           "-n 4 -N 2 even",
		"-N 2 -n 4 -m plane a":  "--distribution: \"plane\" is not a distribution",
		"--ntasks-per-node=2 a": "-n 16 -N 4 even | can't honor --ntasks-per-node set to 2 which doesn't match the requested tasks 16 with the number of requested nodes 4. Ignoring --ntasks-per-node.",
		"--exclusive -A me a":   "-n 16 -N 4 even",
		"--jobid=7 -n4 a":       "-n 4 -N 4",
		"--jobid=8 -n4 a":       "foreign --jobid of another job",
		"-r 1 a":                "foreign --relative",
		"--help":                "foreign --help",
		"--gres=gpu:2 a":        "-n 16 -N 4 --gpus-per-node=2 even",
		"--gres=gpu:a100:2 a":   "-n 16 -N 4 --gpus-per-node=2 -C 'a100' even",
		"--gres=gpu a":          "-n 16 -N 4 --gpus-per-node=1 even",
		"--gres=gpu:a100 a":     "-n 16 -N 4 --gpus-per-node=1 -C 'a100' even",
		"--gres=lic:1 a":        "foreign --gres=\"lic:1\"",
		"-C fast a":             "-n 16 -N 4 -C 'fast' even",
		"--mpi=list":            "foreign --mpi=list",
		"--detach a":            "unknown option --detach",
	} {
		r, err := spec.ParseSrun(strings.Fields(line), func(name string) string { return allocation[name] })
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case r.Client.Foreign != "":
			got = "foreign " + r.Client.Foreign
		default:
			warnings, err := r.Finish(environment)
			got = spec.FormatShape(r.Request.Shape)
			if r.Request.Shape.Even {
				got += " even"
			}
			if err != nil {
				got = err.Error()
			}
			if len(warnings) > 0 {
				got += " | " + strings.Join(warnings, "; ")
			}
		}
		if got != want {
			t.Errorf("srun %s\n got %s\nwant %s", line, got, want)
		}
	}
}

// A step without an option for GPUs takes what its job asked for; GPUs in all count by the node.
func TestSrunTakesTheGPUsOfItsJob(t *testing.T) {
	for _, c := range []struct{ env, line, want string }{
		{"SLURM_GPUS_PER_NODE=2", "a", "-n 16 -N 4 --gpus-per-node=2"},
		{"SLURM_GPUS_PER_NODE=a100:2", "a", "-n 16 -N 4 --gpus-per-node=2 -C 'a100'"},
		{"SLURM_GPUS_PER_NODE=2", "--gpus-per-task=1 a", "-n 16 -N 4 --gpus-per-task=1"},
		{"SLURM_GPUS_PER_NODE=2", "--gres=none a", "-n 16 -N 4"},
		{"SLURM_GPUS_PER_NODE=2 SLURM_GPUS_PER_TASK=1", "-n 2 a", "-n 2 -N 2 --gpus-per-task=1"},
		{"SLURM_GPUS=8", "-N 2 -n 2 a", "-n 2 -N 2 --gpus-per-node=2"},
		{"SLURM_GPUS=6", "a", "-n 16 -N 4"},
		{"SLURM_GPUS=0.5", "a", "-n 16 -N 4"},
		{"SLURM_GRES=gpu:1", "a", "-n 16 -N 4 --gpus-per-node=1"},
		{"SLURM_STEP_GRES=gpu:2 SLURM_GRES=gpu:1", "a", "-n 16 -N 4 --gpus-per-node=2"},
	} {
		env := maps.Clone(allocation)
		for kv := range strings.FieldsSeq(c.env) {
			name, value, _ := strings.Cut(kv, "=")
			env[name] = value
		}
		r, err := spec.ParseSrun(strings.Fields(c.line), func(name string) string { return env[name] })
		if err == nil {
			_, err = r.Finish(environment)
		}
		if err != nil {
			t.Errorf("%s srun %s: %v", c.env, c.line, err)
			continue
		}
		if got := spec.FormatShape(r.Request.Shape); got != c.want {
			t.Errorf("%s srun %s\n got %s\nwant %s", c.env, c.line, got, c.want)
		}
	}
}

func TestSrunReadsItsEnvironment(t *testing.T) {
	env := map[string]string{
		"SLURM_KILL_BAD_EXIT": "1", "SLURM_LABELIO": "1", "SLURM_UNBUFFEREDIO": "no", "SLURM_TIMELIMIT": "2", "SLURM_MPI_TYPE": "pmix_v4", "SRUN_OUTPUT": "o.%t",
	}
	r, err := spec.ParseSrun([]string{"-n2", "a"}, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Request.Policy; !p.KillOnBad || !p.HighestRC || p.TimeLimit.Minutes() != 2 {
		t.Errorf("got the policy %+v", p)
	}
	if o := r.Order; !o.IO.Label || o.IO.Unbuffered || o.MPI != "pmix" || o.Slurm == nil || r.Client.Stdout != "o.%t" {
		t.Errorf("got the order %+v", o)
	}
	for line, want := range map[string]string{
		"SLURM_CPU_BIND=cores":                 "bind cores",
		"SLURM_CPU_BIND=cores SLURM_STEP_ID=0": "",
		"SLURM_CONSTRAINT=fast":                "-C 'fast'",
		"SLURM_OVERCOMMIT=1":                   "-O",
		"SLURM_OVERCOMMIT=0":                   "",
		"SLURM_MEM_PER_NODE=8":                 "--mem-per-cpu=4M",
		"SLURM_MEM_PER_NODE=8 SLURM_JOB_ID=7":  "",
		"SLURM_JOB_NAME=nm":                    "name nm",
		"SLURM_JOB_NAME=nm SLURM_JOB_ID=7":     "",
		"SLURM_WORKING_DIR=/x":                 "in /x",
		"SLURM_DEBUG=0":                        "",
		"SLURM_PARTITION=p SLURM_ACCOUNT=a":    "",
		"SLURM_PROFILE=all":                    "said filch does not do SLURM_PROFILE: no data of this kind are collected",
		"SLURM_EXIT_IMMEDIATE=9":               "said filch does not do SLURM_EXIT_IMMEDIATE: the exit code is that of every error",
		"SLURM_HINT=nomultithread":             "foreign SLURM_HINT: bind with --cpu-bind",
		"SRUN_CONTAINER=b":                     "foreign SRUN_CONTAINER: run the container program as the command of the step",
		"SLURM_OVERLAP=1":                      "foreign SLURM_OVERLAP: give the step slots of its own, or use --overcommit",
		"SLURM_OVERLAP=0":                      "",
		"SLURM_BURST_BUFFER=x":                 "foreign SLURM_BURST_BUFFER: filch does not set up nodes or networks",
		"SLURM_BURST_BUFFER=x SLURM_JOB_ID=7":  "",
		"SLURM_CPU_BIND=rank_ldom":             "SLURM_CPU_BIND: filch cannot bind ranks by rank_ldom",
		"--tmp=9 SLURM_JOB_ID=7":               "",
		"--tmp=9":                              "foreign --tmp: filch does not set up nodes or networks",
		"--deadline=now":                       "foreign --deadline: submit the job at that time",
		"--nice=3":                             "said filch does not do --nice of srun: sbatch's works, and --priority of filch run",
		"--hold":                               "held",
		"--mail-type=END":                      "said filch does not do --mail-type: filch sends no mail",
		"--mail-type=NONE -A a --comment=x":    "",
	} {
		env, args := map[string]string{}, []string{"-n2"}
		for word := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(word, "=")
			if word[0] == '-' || name == "a" {
				args = append(args, word)
			} else {
				env[name] = value
			}
		}
		r, err := spec.ParseSrun(append(args, "a"), func(name string) string { return env[name] })
		if err == nil && r.Client.Foreign == "" {
			_, err = r.Finish(environment)
		}
		if got := told(r, err); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
	env = map[string]string{"SLURM_NTASKS": "nonsense"}
	if _, err := spec.ParseSrun([]string{"a"}, func(name string) string { return env[name] }); err == nil {
		t.Error("SLURM_NTASKS=nonsense was read")
	}
}

// told is what a variable or an option made of srun -n2 a.
func told(r *spec.Run, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case r.Client.Foreign != "":
		return "foreign " + r.Client.Foreign + ": " + r.Client.Instead
	}
	var words []string
	if s := strings.TrimSpace(strings.TrimPrefix(spec.FormatShape(r.Request.Shape), "-n 2")); s != "" {
		words = append(words, s)
	}
	if b := r.Order.Bind.Kind; b != "" {
		words = append(words, "bind "+b)
	}
	if n := r.Request.Name; n != "a" {
		words = append(words, "name "+n)
	}
	if d := r.Order.Cwd; d != environment.Cwd {
		words = append(words, "in "+d)
	}
	if r.Client.Hold {
		words = append(words, "held")
	}
	for _, s := range r.Client.Said {
		words = append(words, "said "+s)
	}
	return strings.Join(words, " ")
}

// srun's --export differs: NONE in front passes nothing, and quotes are part of a value.
func TestSrunExport(t *testing.T) {
	for rule, want := range map[string]string{"NONE,A=b": "", "none": "", "NONE,ALL": "", "NIL,C=3": "C=3", "A,B=2": "A=1 B=2", `C="a,b"`: `C="a,b"`, "ALL,NONE": "A=1 E=2"} {
		r, err := spec.ParseSrun([]string{"--export=" + rule, "a"}, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Export.Filter([]string{"A=1", "E=2"}), " "); got != want {
			t.Errorf("--export=%s passes %q, want %q", rule, got, want)
		}
	}
}

// A step keeps the variables of the batch job around it, and follows its --export.
func TestStepOfBatchJob(t *testing.T) {
	around := map[string]string{"SLURM_JOB_ID": "7", "FILCH_SLURM_JOB": "7", "SLURM_JOB_NAME": "nm", "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "2", "SLURM_EXPORT_ENV": "NONE", "SLURM_PROCID": "0", "A": "1"}
	var env []string
	for name, value := range around {
		env = append(env, name+"="+value)
	}
	r, err := spec.ParseSrun([]string{"-l", "-J", "other", "a"}, func(name string) string { return around[name] })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Finish(spec.Context{Env: env, Cwd: "/", Job: 7}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.Order.Env)
	want := "FILCH_SLURM_JOB=7 SLURM_ARRAY_JOB_ID=5 SLURM_ARRAY_TASK_ID=2 SLURM_EXPORT_ENV=NONE SLURM_JOB_ID=7 SLURM_JOB_NAME=other SLURM_LABELIO=1 SRUN_DEBUG=3 TMPDIR=/tmp"
	if got := strings.Join(r.Order.Env, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := *r.Order.Slurm; got != (launcher.Slurm{Job: 7, Array: 5, Task: "2", Name: "nm"}) {
		t.Errorf("got the job %+v", got)
	}
}

func FuzzSrun(f *testing.F) {
	f.Add("-n 4 -lK1 --time=1:00 --exclusive=user a : -n 2 b", "n[1-4]")
	f.Fuzz(func(t *testing.T, line, list string) {
		env := map[string]string{"SLURM_JOB_NODELIST": list, "SLURM_JOB_NUM_NODES": "3", "SLURM_NTASKS": "5"}
		r, err := spec.ParseSrun(strings.Split(line, " "), func(name string) string { return env[name] })
		if err == nil && r.Client.Foreign == "" {
			_, _ = r.Finish(environment)
		}
	})
}
