package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// srunMore lists srun's options that filch run does not have or reads differently.
var srunMore = dialect{
	// The nodes, the account and the order of jobs are settled before the launchers
	// start: these options are read and change nothing.
	idle("account", 'A', "NAME"), idle("acctg-freq", 0, "X"), idle("bb", 0, "X"), idle("bbf", 0, "X"),
	idle("comment", 0, "X"), idle("constraint", 'C', "X"), idle("cluster-constraint", 0, "X"), idleMaybe("compress", 0),
	idle("container", 0, "X"), idle("core-spec", 'S', "N"), idle("cores-per-socket", 0, "N"), idle("cpu-freq", 0, "X"),
	idle("deadline", 0, "X"), idle("delay-boot", 0, "X"), idle("exact", 0, ""), idleMaybe("exclusive", 0),
	idle("extra-node-info", 'B', "X"), idle("gres-flags", 0, "X"), idle("gpu-bind", 0, "X"), idle("gpu-freq", 0, "X"),
	idle("hint", 0, "X"), idle("licenses", 'L', "X"), idle("mail-type", 0, "X"), idle("mail-user", 0, "X"),
	idle("mcs-label", 0, "X"), idle("mem-bind", 0, "X"), idle("mincpus", 0, "N"), idle("msg-timeout", 0, "N"),
	idle("network", 0, "X"), idleMaybe("nice", 0), idle("ntasks-per-core", 0, "N"), idle("ntasks-per-socket", 0, "N"),
	idle("overlap", 0, ""), idleMaybe("oversubscribe", 's'), idle("partition", 'p', "NAME"), idle("power", 0, "X"),
	idle("prefer", 0, "X"), idle("preserve-env", 'E', ""), idle("priority", 0, "N"), idle("profile", 0, "X"),
	idleMaybe("propagate", 0), idle("qos", 'q', "NAME"), idle("quit-on-interrupt", 'X', ""), idle("reboot", 0, ""),
	idle("reservation", 0, "NAME"), idleMaybe("send-libs", 0), idle("slurmd-debug", 0, "N"), idle("sockets-per-node", 0, "N"),
	idle("spread-job", 0, ""), idle("switches", 0, "X"), idle("thread-spec", 0, "N"), idle("threads", 'T', "N"),
	idle("threads-per-core", 0, "N"), idle("time-min", 0, "X"), idle("tmp", 0, "X"), idle("use-min-nodes", 0, ""),
	idle("wckey", 0, "X"), idle("whole", 0, ""), idle("interactive", 0, ""), idle("disable-status", 0, ""),
	// The real srun handles these options.
	foreignOption("attach", 'a', "X"), foreignOption("begin", 'b', "X"), foreignOption("bcast-exclude", 0, "X"),
	foreignOption("clusters", 'M', "X"), foreignOption("dependency", 'd', "X"), foreignOption("epilog", 0, "X"),
	foreignOption("export-file", 0, "X"), foreignOption("gid", 0, "X"), foreignOption("gpus", 'G', "X"),
	foreignOption("gpus-per-node", 0, "X"), foreignOption("gpus-per-socket", 0, "X"), foreignOption("gres", 0, "X"),
	foreignOption("het-group", 0, "X"), foreignOption("hold", 'H', ""), foreignOption("mem-per-gpu", 0, "X"),
	foreignOption("no-allocate", 'Z', ""), foreignOption("nodefile", 'F', "X"), foreignOption("ntasks-per-gpu", 0, "N"),
	foreignOption("prolog", 0, "X"), foreignOption("relative", 'r', "N"), foreignOption("task-epilog", 0, "X"),
	foreignOption("task-prolog", 0, "X"), foreignOption("test-only", 0, ""), foreignOption("tres-per-task", 0, "X"),
	foreignOption("uid", 0, "X"), foreignOption("usage", 0, ""), foreignOption("version", 'V', ""), foreignOption("help", 'h', ""),
	// The same options with other words.
	{Name: "jobid", Arg: "ID", set: func(r *Run, v string) error { r.Client.Allocation = v; return nil }},
	{Name: "mpi", Arg: "TYPE", set: setSrunMPI},
	{Name: "kill-on-bad-exit", Short: 'K', Arg: "0|1", Optional: "1", set: func(r *Run, v string) error {
		r.Request.Policy.KillOnBad = v != "0"
		return nil
	}},
	// Only filch has these options.
	foreignOption("kill-wait", 0, "X"), foreignOption("requeue", 0, ""), foreignOption("detach", 0, ""), foreignOption("new-job", 0, ""),
	foreignOption("slurm-env", 0, ""), foreignOption("env", 0, "X"), foreignOption("json", 0, ""), foreignOption("instance", 0, "X"),
}

// idle is an option that changes nothing here.
func idle(name string, short byte, arg string) Option {
	return Option{Name: name, Short: short, Arg: arg, Part: true, idle: true, set: func(*Run, string) error { return nil }}
}

// idleMaybe is an idle option with an optional value.
func idleMaybe(name string, short byte) Option {
	o := idle(name, short, "X")
	o.Optional = "-"
	return o
}

// foreignOption is an option that only the real srun can handle.
func foreignOption(name string, short byte, arg string) Option {
	return Option{Name: name, Short: short, Arg: arg, set: func(r *Run, _ string) error {
		r.Client.Foreign = "--" + name
		return nil
	}}
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

// srunInputs lists the variables that srun takes for options, in the order of
// application.
var srunInputs = [...]struct{ name, option string }{
	{"SLURM_NPROCS", "ntasks"},
	{"SLURM_NTASKS", "ntasks"},
	{"SLURM_NNODES", "nodes"},
	{"SLURM_JOB_NUM_NODES", "nodes"},
	{"SLURM_NTASKS_PER_NODE", "ntasks-per-node"},
	{"SLURM_CPUS_PER_TASK", "cpus-per-task"},
	{"SRUN_CPUS_PER_TASK", "cpus-per-task"},
	{"SLURM_DISTRIBUTION", "distribution"},
	{"SLURM_KILL_BAD_EXIT", "kill-on-bad-exit"},
	{"SLURM_WAIT", "wait"},
	{"SLURM_TIMELIMIT", "time"},
	{"SLURM_MPI_TYPE", "mpi"},
	{"SLURM_EXPORT_ENV", "export"},
	{"SLURM_OPEN_MODE", "open-mode"},
	{"SLURM_REMOTE_CWD", "chdir"},
	{"SLURM_STDINMODE", "input"},
	{"SLURM_STDOUTMODE", "output"},
	{"SLURM_STDERRMODE", "error"},
	{"SRUN_INPUT", "input"},
	{"SRUN_OUTPUT", "output"},
	{"SRUN_ERROR", "error"},
}

// srunSwitches lists variables whose presence switches an option on; the values 0, no
// and off leave the option off.
var srunSwitches = [...]struct{ name, option string }{
	{"SLURM_LABELIO", "label"},
	{"SLURM_UNBUFFEREDIO", "unbuffered"},
	{"SLURM_NO_KILL", "no-kill"},
}

// ParseSrun reads the words behind srun by srun's meaning: with srun's defaults,
// options and environment. If [Client].Foreign is set, or on an error, the caller must
// run the real srun.
func ParseSrun(args []string, env func(string) string) (*Run, error) {
	r := newRun()
	r.Request.Policy.KillOnBad = false
	r.Request.Policy.HighestRC = true
	r.Order.SlurmEnv, r.Client.Srun = true, true
	for _, in := range srunInputs {
		if v := env(in.name); v != "" {
			o, err := srunMore.find(in.option)
			if err == nil {
				err = o.set(r, v)
			}
			if err != nil {
				return nil, invalid("%s: %v", in.name, err)
			}
		}
	}
	for _, in := range srunSwitches {
		if v := strings.ToLower(env(in.name)); v != "" && v != "0" && v != "no" && v != "off" {
			o, err := srunMore.find(in.option)
			if err != nil {
				return nil, err
			}
			if err := o.set(r, o.Optional); err != nil {
				return nil, invalid("%s: %v", in.name, err)
			}
		}
	}
	if env("SLURM_TASK_PROLOG") != "" || env("SLURM_TASK_EPILOG") != "" {
		r.Client.Foreign = "a task prolog"
	}
	around := r.Request.Shape
	r, err := parse(r, args, srunMore)
	if err != nil {
		return nil, err
	}
	if id := r.Client.Allocation; id != "" && id != env("SLURM_JOB_ID") {
		r.Client.Foreign = "--jobid of another job"
	}
	for _, p := range r.Parts {
		if p.Client.Foreign != "" {
			r.Client.Foreign = p.Client.Foreign
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
	if s.PerNode > 0 && !r.isGiven("ntasks") && s.Ranks > 0 && s.MinNodes > 0 && s.PerNode*s.MinNodes != s.Ranks {
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
