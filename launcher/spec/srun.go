package spec

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// settled is the note of options that srun, too, reads only where it makes an allocation.
const settled = "settled with the nodes before filch starts; srun inside an allocation does nothing with the option either; outside of an allocation as with sbatch"

// SrunTable has every option of srun.
var SrunTable = sync.OnceValue(func() Table {
	return join(
		same("", `ntasks nodes cpus-per-task ntasks-per-node distribution nodelist exclude overcommit mem mem-per-cpu gpus gpus-per-node gpus-per-task
			label output error input open-mode unbuffered chdir job-name time signal wait no-kill immediate multi-prog cpu-bind
			pty bcast quiet verbose`),
		same("labels of nodes: filch up --label", "constraint"),
		acts("a value that begins with NONE passes nothing, as in srun", "export=RULE", func(r *Run, v string) (err error) {
			r.Export, err = readSrunExport(v)
			return err
		}),
		acts("gpu:[KIND:]N, as --gpus-per-node; other kinds are left", "gres=LIST", setGres),
		acts("the default is srun's, 0", "K,kill-on-bad-exit[=0|1]", func(r *Run, v string) error {
			r.Request.Policy.KillOnBad = v != "0"
			return nil
		}),
		acts("pmi2, pmix and none; other types are left", "mpi=TYPE", setSrunMPI),
		acts("the job around; another job's is left", "jobid=ID", func(r *Run, v string) error { r.Client.Allocation = v; return nil }),
		acts("the first Ctrl-C ends the step", "X,disable-status", quitFirst),
		acts("the first Ctrl-C ends the step", "quit-on-interrupt", quitFirst),
		acts("ALL, NONE, or names of soft limits", "propagate[=LIMITS]", setPropagate),
		acts("--bcast sends the libraries, too; no is left", "send-libs[=yes|no]", setSendLibs),
		rows(Done, "a step always has its slots alone", "exact exclusive[=user|mcs]"),
		rows(Done, settled, `A,account=NAME p,partition=NAMES q,qos=NAME comment=TEXT wckey=KEY reservation=NAMES mail-user=USER
			mcs-label=LABEL priority=N nice[=N] deadline=TIME delay-boot=MINUTES time-min=LIMIT reboot bb=SPEC bbf=FILE
			cluster-constraint=LIST switches=N use-min-nodes spread-job contiguous prefer=LIST power=FLAGS s,oversubscribe tmp=SIZE H,hold`),
		acts("NONE", "mail-type=TYPES", setMail),
		rows(Said, "no data of this kind are collected", "acctg-freq=LIST profile=TYPES"),
		rows(Said, "filch has no slurmd and no messages to slurmctld", "slurmd-debug=LEVEL msg-timeout=SEC T,threads=N"),
		rows(Said, "--bcast chooses by itself", "compress[=TYPE]"),
		rows(Left, "run the container program as the command of the step", "container=BUNDLE"),
		rows(Left, "name nodes with -w", "r,relative=N F,nodefile=FILE"),
		rows(Left, "use filch run --resource", "L,licenses=LIST"),
		rows(Left, "bind with --cpu-bind", `mem-bind=TYPE gpu-bind=TYPE accel-bind=TYPE hint=TYPE threads-per-core=N cores-per-socket=N sockets-per-node=N
			B,extra-node-info=S:C:T ntasks-per-core=N ntasks-per-socket=N mincpus=N S,core-spec=N thread-spec=N`),
		rows(Left, "use --gpus-per-task", "gpus-per-socket=N gres-flags=TYPE cpus-per-gpu=N mem-per-gpu=SIZE ntasks-per-gpu=N"),
		rows(Left, "filch does not set frequencies", "cpu-freq=RANGE gpu-freq=VALUE"),
		rows(Left, "filch does not set up networks", "network=TYPE resv-ports[=N] x11[=WHERE]"),
		rows(Left, "give the step slots of its own, or use --overcommit", "overlap[=WHAT]"),
		rows(Left, "whole nodes: filch run --exclusive", "whole"),
		rows(Left, "start the step when the other has ended", "b,begin=TIME d,dependency=LIST"),
		rows(Left, "one program per part: srun a : b", "het-group=LIST pack-group=LIST"),
		acts("its export, unset and print lines are followed", "task-prolog=FILE", func(r *Run, v string) error { return script(&r.Order.Hooks.Prolog, v) }),
		acts("", "task-epilog=FILE", func(r *Run, v string) error { return script(&r.Order.Hooks.Epilog, v) }),
		rows(Left, "call the scripts around the command of the step", "prolog=FILE epilog=FILE"),
		rows(Left, "an instance has one user and one cluster", "M,clusters=NAMES uid=USER gid=GROUP"),
		rows(Left, "list the libraries with --bcast", "bcast-exclude=PATHS"),
		rows(Left, "filch run always starts a job or a step", "Z,no-allocate test-only E,preserve-env debugger-test interactive"),
		rows(Left, "the text of srun", "h,help usage V,version"),
	)
})

// script makes an executable file the command of a hook. No file is no command.
func script(command *string, file string) error {
	*command = ""
	if file == "" || file == "none" || file == "NONE" {
		return nil
	}
	*command = "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	return (&launcher.Hooks{Prolog: *command}).Check()
}

// setGres reads gpu:KIND:N.
func setGres(r *Run, v string) error {
	o, _ := lookup("gpus-per-node")
	if strings.EqualFold(v, "none") {
		v = "gpu:0"
	}
	rest, ok := strings.CutPrefix(v, "gpu")
	if !ok || rest != "" && rest[0] != ':' {
		r.Client.Foreign, r.Client.Instead = "--gres="+clip(v), "use --resource of filch run"
		return nil
	}
	count := strings.TrimPrefix(rest, ":")
	if count == "" || !strings.Contains(count, ":") && strings.Trim(count, "0123456789") != "" {
		count = strings.TrimSuffix(count+":1", ":")
	}
	err := o.set(r, strings.TrimPrefix(count, ":"))
	r.Client.Slurm.GPUsPerNode = "" // of --gpus-per-node only
	return err
}

func quitFirst(r *Run, _ string) error { r.Client.QuitFirst = true; return nil }

func setSendLibs(r *Run, v string) error {
	if v != "-" && !strings.EqualFold(v, "yes") {
		r.Client.Foreign, r.Client.Instead = "--send-libs=no", "--bcast sends the libraries, too"
	}
	return nil
}

// setSrunMPI takes pmix_v4 and the like for pmix, and openmpi, which provides no
// server, for none.
func setSrunMPI(r *Run, v string) error {
	switch {
	case v == "list":
		r.Client.Foreign = "--mpi=list"
		return nil
	case strings.HasPrefix(v, "pmix"):
		v = "pmix"
	case v == "openmpi", v == "none":
		v = "none"
	}
	return setMPI(r, v)
}

// ParseSrun reads the words behind srun by srun's meaning: with srun's defaults,
// options and environment. If [Client].Foreign is set, or on an error, the caller must
// run the real srun.
func ParseSrun(args []string, env func(string) string) (*Run, error) {
	r := newRun()
	r.Request.Policy.KillOnBad = false
	r.Request.Policy.HighestRC = true
	r.Order.Slurm, r.Client.Srun = &launcher.Slurm{}, true
	if err := r.srunEnviron(env); err != nil {
		return nil, err
	}
	around := r.Request.Shape
	r, err := parse(r, args, SrunTable())
	if err != nil {
		return nil, err
	}
	if err := r.inheritGPUs(env); err != nil {
		return nil, err
	}
	if env("SLURM_JOB_ID") == "" {
		for _, name := range r.given {
			if o, err := SrunTable().find(name); err == nil && o.Note == settled {
				r.meetOutside(o.Name, "--"+o.Name)
			}
		}
	}
	if id := r.Client.Allocation; id != "" && id != env("SLURM_JOB_ID") {
		r.Client.Foreign = "--jobid of another job"
	}
	for _, p := range r.Parts {
		if p.Client.Foreign != "" {
			r.Client.Foreign, r.Client.Instead = p.Client.Foreign, p.Client.Instead
		}
	}
	if list := env("SLURM_JOB_NODELIST"); list != "" && around.MinNodes > 0 {
		if r.Client.Around, err = Hosts(list); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// settle gives an srun the shape of a step of the allocation around it: on all nodes of
// the allocation unless told otherwise.
func (r *Run) settle() (warnings []string) {
	s, nodes := &r.Request.Shape, r.Client.Around
	if len(nodes) == 0 {
		return nil
	}
	if s.PerNode > 0 && !r.isGiven("ntasks") && s.Ranks > 0 && s.MinNodes > 0 && int64(s.PerNode)*int64(s.MinNodes) != int64(s.Ranks) {
		warnings = append(warnings, fmt.Sprintf("can't honor --ntasks-per-node set to %d which doesn't match the requested tasks %d with the number of requested nodes %d. Ignoring --ntasks-per-node.",
			s.PerNode, s.Ranks, s.MinNodes))
		s.PerNode = 0
	}
	if !r.isGiven("nodes") && s.Ranks > 0 && s.Ranks < s.MinNodes {
		warnings = append(warnings, fmt.Sprintf("can't run %d processes on %d nodes, setting nnodes to %d", s.Ranks, s.MinNodes, s.Ranks))
		s.MinNodes, s.MaxNodes = s.Ranks, s.Ranks
	}
	// Named nodes are used, with other nodes if need be.
	for _, n := range nodes {
		if len(s.Only) == 0 || len(s.Only) >= int(s.MinNodes) {
			break
		}
		if !slices.Contains(s.Only, n) && !slices.Contains(s.Exclude, n) {
			s.Only = append(s.Only, n)
		}
	}
	slices.SortFunc(s.Only, func(a, b filch.NodeName) int { return slices.Index(nodes, a) - slices.Index(nodes, b) })
	if s.PerNode == 0 && s.MinNodes > 0 && s.MinNodes == s.MaxNodes && s.Ranks > s.MinNodes && s.Layout != launcher.LayoutPlane && !s.Overcommit {
		s.Even = true // as srun lays out a step
	}
	return warnings
}
