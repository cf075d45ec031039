package spec

import (
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// Options are the options of filch run, in the order of the help.
var Options = [...]Option{
	{
		Name: "ntasks", Short: 'n', Arg: "N", Part: true, Help: "ranks to start (default: one per node)",
		set: func(r *Run, v string) (err error) { r.Request.Shape.Ranks, err = ranks(v); return err },
	},
	{Name: "nodes", Short: 'N', Arg: "MIN[-MAX]", Help: "nodes to use", set: setNodes},
	{
		Name: "cpus-per-task", Short: 'c', Arg: "N", Help: "slots per rank; sets OMP_NUM_THREADS for the ranks if the variable is not set",
		set: func(r *Run, v string) (err error) { r.Request.Shape.PerRank.Slots, err = Positive(v); return err },
	},
	{
		Name: "ntasks-per-node", Arg: "N", Help: "ranks per node: at most N with -n, exactly N without -n",
		set: func(r *Run, v string) (err error) { r.Request.Shape.PerNode, err = Positive(v); return err },
	},
	{
		Name: "distribution", Short: 'm', Arg: "WAY", Help: "order of ranks over nodes: block, cyclic or plane=SIZE; behind a colon over sockets: block or cyclic",
		set: func(r *Run, v string) (err error) {
			r.Request.Shape.Layout, r.Request.Shape.Plane, r.Order.Bind.Order, err = Layout(v)
			r.Client.Slurm.Distribution, _, _ = strings.Cut(strings.ToLower(v), "=")
			return err
		},
	},
	{
		Name: "nodelist", Short: 'w', Arg: "LIST", Help: "use these nodes: n[1-3,7], or a file (a name with a /)",
		set: func(r *Run, v string) error { r.Client.Only = v; return nil },
	},
	{
		Name: "exclude", Short: 'x', Arg: "LIST", Help: "do not use these nodes",
		set: func(r *Run, v string) error { r.Client.Exclude = v; return nil },
	},
	{
		Name: "constraint", Short: 'C', Arg: "LABELS", Help: "use only nodes with these labels: a100, 'a100&bigmem', '(a100|v100)&!slow'",
		set: func(r *Run, v string) error {
			c, err := filch.ReadConstraint(v)
			if err != nil {
				return err
			}
			r.Request.Shape.Labels = c
			return nil
		},
	},
	{
		Name: "resource", Arg: "NAME=N", Help: "what each rank takes of a resource that the site names: license=1,scratch=10",
		set: func(r *Run, v string) error {
			a, err := filch.ReadAmounts(v)
			if err != nil {
				return err
			}
			r.Request.Shape.PerRank.Named = a
			return nil
		},
	},
	{
		Name: "exclusive", Help: "take whole nodes",
		set: func(r *Run, _ string) error { r.Request.Shape.Exclusive = true; return nil },
	},
	{
		Name: "overcommit", Short: 'O', Help: "start more ranks than there are slots",
		set: func(r *Run, _ string) error { r.Request.Shape.Overcommit = true; return nil },
	},
	{
		Name: "mem", Arg: "SIZE", Help: "memory per node: 500 (MiB), 4G",
		set: func(r *Run, v string) (err error) { r.Client.Mem, err = Memory(v); return err },
	},
	{
		Name: "mem-per-cpu", Arg: "SIZE", Help: "memory per slot",
		set: func(r *Run, v string) (err error) { r.Client.MemPerCPU, err = Memory(v); return err },
	},
	{
		Name: "gpus-per-task", Arg: "[KIND:]N", Help: "GPUs per rank, on nodes with the label KIND; 0.25: a quarter of one GPU",
		set: func(r *Run, v string) error {
			return r.setGPUs(v, &r.Request.Shape.PerRank.GPUs, &r.Client.Slurm.GPUsPerTask)
		},
	},
	{
		Name: "gpus-per-node", Arg: "[KIND:]N", Help: "GPUs per node, for all ranks there",
		set: func(r *Run, v string) error {
			return r.setGPUs(v, &r.Request.Shape.NodeGPUs, &r.Client.Slurm.GPUsPerNode)
		},
	},
	{
		Name: "gpus", Short: 'G', Arg: "[KIND:]N", Help: "GPUs in all, divided evenly among the ranks, or among the nodes of -N",
		set: func(r *Run, v string) error { return r.setGPUs(v, &r.Client.GPUs, &r.Client.Slurm.GPUs) },
	},
	{
		Name: "label", Short: 'l', Help: "begin every line with the number of its rank",
		set: func(r *Run, _ string) error { r.Order.IO.Label = true; return nil },
	},
	{
		Name: "fold", Help: "print a line of several ranks once, as in [0-3,5] text",
		set: func(r *Run, _ string) error { r.Client.Fold = true; return nil },
	},
	{
		Name: "output", Short: 'o', Arg: "WHERE", Help: "standard output: a file pattern (%t rank, %N node, %j job ...), all, none, or one rank",
		set: func(r *Run, v string) error { r.Client.Stdout = v; return stream(v) },
	},
	{
		Name: "error", Short: 'e', Arg: "WHERE", Help: "standard error (default: as --output)",
		set: func(r *Run, v string) error { r.Client.Stderr = v; return stream(v) },
	},
	{
		Name: "input", Short: 'i', Arg: "WHERE", Help: "standard input: all, none, one rank, or a file",
		set: func(r *Run, v string) error { r.Client.Stdin = v; return stream(v) },
	},
	{Name: "open-mode", Arg: "MODE", Help: "append or truncate the files of -o and -e", set: setOpenMode},
	{
		Name: "unbuffered", Short: 'u', Help: "forward output at once, not line by line",
		set: func(r *Run, _ string) error { r.Order.IO.Unbuffered = true; return nil },
	},
	{
		Name: "chdir", Short: 'D', Arg: "DIR", Help: "working directory of the ranks",
		set: func(r *Run, v string) error { r.Order.Cwd = v; return filled(v) },
	},
	{
		Name: "job-name", Short: 'J', Arg: "NAME", Help: "name of the job (default: the program's)",
		set: func(r *Run, v string) error { r.Request.Name = v; return jobName(v) },
	},
	{
		Name: "time", Short: 't', Arg: "LIMIT", Help: "time limit: 90s, 10m, 1h30m, MIN, MIN:SEC, H:MIN:SEC, DAYS-H, DAYS-H:MIN[:SEC]",
		set: func(r *Run, v string) (err error) { r.Request.Policy.TimeLimit, err = Time(v); return err },
	},
	{
		Name: "signal", Arg: "SIG[@TIME]", Help: "send SIG this TIME before the time limit: 60 or 60s, 10m, M:S (default 60s)",
		set: func(r *Run, v string) (err error) {
			r.Request.Policy.WarnSig, r.Request.Policy.WarnTime, err = Warning(v)
			return err
		},
	},
	{
		Name: "kill-on-bad-exit", Short: 'K', Arg: "0|1", Optional: "1", Help: "end the job when a rank ends badly (default 1)",
		set: func(r *Run, v string) (err error) { r.Request.Policy.KillOnBad, err = truth(v); return err },
	},
	{
		Name: "wait", Short: 'W', Arg: "TIME", Help: "end the job this TIME after its first rank ended: 30 or 30s, 10m, M:S; 0 never",
		set: func(r *Run, v string) (err error) { r.Request.Policy.WaitFirst, err = Seconds(v); return err },
	},
	{
		Name: "kill-wait", Arg: "TIME", Help: "time between TERM and KILL when the job is ended: 30 or 30s, 1m, M:S (default 10s)",
		set: func(r *Run, v string) (err error) { r.Request.Policy.KillWait, err = Seconds(v); return err },
	},
	{Name: "no-kill", Short: 'k', Arg: "off", Optional: "on", Help: "continue without the ranks of a lost node", set: setNoKill},
	{
		Name: "requeue", Help: "start the job again when a node is lost",
		set: func(r *Run, _ string) error { r.Request.Policy.Requeue = true; return nil },
	},
	{
		Name: "spare", Arg: "N", Help: "hold N more nodes, on which the job starts again at once when a node is lost; implies --requeue",
		set: func(r *Run, v string) (err error) { r.Request.Shape.Spare, err = Count(v); return err },
	},
	{Name: "immediate", Short: 'I', Arg: "TIME", Optional: "1", Help: "give up when the job has not started after this TIME: 30 or 30s, 10m, M:S", set: setImmediate},
	{
		Name: "multi-prog", Help: "read the programs from a file: lines of RANKS PROGRAM ARGUMENTS",
		set: func(r *Run, _ string) error { r.Client.MultiProg = true; return nil },
	},
	{
		Name: "export", Arg: "RULE", Part: true, Help: "environment of the ranks: ALL, NONE, or NAME,NAME=VALUE,...",
		set: func(r *Run, v string) (err error) {
			r.Client.Slurm.Export = v
			r.Export, err = ReadExport(v)
			return err
		},
	},
	{
		Name: "env", Arg: "NAME=VALUE", Part: true, Help: "set a variable for the ranks; may be repeated",
		set: func(r *Run, v string) error { r.Client.Env = append(r.Client.Env, v); return setting(v) },
	},
	{Name: "mpi", Arg: "TYPE", Help: "wire-up: auto, pmi1, pmi2, pmix or none; list prints the types", set: setMPI},
	{
		Name: "cpu-bind", Arg: "[verbose,]WAY", Help: "bind ranks to CPUs: none, threads, cores, sockets, ldoms, rank, map_cpu:LIST or mask_cpu:LIST",
		set: func(r *Run, v string) error {
			b, err := CPUBind(v)
			b.Order = r.Order.Bind.Order
			r.Order.Bind = b
			return err
		},
	},
	{
		Name: "pty", Help: "give rank 0 a terminal",
		set: func(r *Run, _ string) error { r.Client.Pty = true; return nil },
	},
	{
		Name: "bcast", Arg: "PATH", Optional: "-", Help: "first copy the program and its libraries to the nodes",
		set: func(r *Run, v string) error { r.Client.Bcast = v; return filled(v) },
	},
	{
		Name: "private-tmp", Help: "give the ranks of each node a new folder as TMPDIR, and remove the folder with the job",
		set: func(r *Run, _ string) error { r.Order.Hooks.PrivateTmp = true; return nil },
	},
	{
		Name: "prolog", Arg: "COMMAND", Help: "run COMMAND with a shell before each rank; lines like export NAME=VALUE that it prints set the rank's environment",
		set: func(r *Run, v string) error { r.Order.Hooks.Prolog = v; return r.Order.Hooks.Check() },
	},
	{
		Name: "epilog", Arg: "COMMAND", Help: "run COMMAND with a shell after each rank, with FILCH_EXIT_CODE",
		set: func(r *Run, v string) error { r.Order.Hooks.Epilog = v; return r.Order.Hooks.Check() },
	},
	{
		Name: "slurm-env", Help: "give the ranks SLURM_* variables that describe only this job",
		set: func(r *Run, _ string) error { r.Order.Slurm = &launcher.Slurm{}; return nil },
	},
	{
		Name: "detach", Help: "print the job's number and leave; do not wait",
		set: func(r *Run, _ string) error { r.Request.Detach = true; return nil },
	},
	{
		Name: "hold", Help: "gather no slots until filch release",
		set: func(r *Run, _ string) error { r.Client.Hold = true; return nil },
	},
	{
		Name: "dep", Arg: "LIST", Help: "begin after other jobs: afterok:ID:ID,afterany:ID, afternotok, after (their start), singleton; ? between conditions: any of them",
		set: func(r *Run, v string) (err error) { r.Client.Deps, err = ReadDeps(v); return err },
	},
	{
		Name: "begin", Arg: "TIME", Help: "begin at this time or later: 90s, now+1hour, 16:00, 2026-12-01T10:00",
		set: func(r *Run, v string) (err error) {
			r.Request.Before.Begin, err = ReadBegin(v, time.Now())
			return err
		},
	},
	{
		Name: "priority", Arg: "NUMBER", Help: "jobs with a lower number get slots first (default 0)",
		set: func(r *Run, v string) (err error) { r.Request.Class, err = Priority(v); return err },
	},
	{
		Name: "on-end", Arg: "COMMAND", Help: "run COMMAND once with a shell after the end of the job; FILCH_ENDED_STATE and other variables describe the end",
		set: func(r *Run, v string) error { r.Client.OnEnd = v; return filled(v) },
	},
	{
		Name: "durable", Help: "with --detach: leave once the job is on the disks of three nodes",
		set: func(r *Run, _ string) error { r.Request.Durable = true; return nil },
	},
	{
		Name: "new-job", Help: "inside a job: start a new job, not a step",
		set: func(r *Run, _ string) error { r.Client.NewJob = true; return nil },
	},
	{
		Name: "quiet", Short: 'Q', Help: "print no warnings",
		set: func(r *Run, _ string) error { r.Client.Quiet = true; return nil },
	},
	{
		Name: "verbose", Short: 'v', Help: "print what happens; -vv prints more",
		set: func(r *Run, _ string) error { r.Client.Verbose++; return nil },
	},
	{
		Name: "dry-run", Help: "print the node, the slots and the CPUs of every rank, and start nothing",
		set: func(r *Run, _ string) error { r.Client.DryRun = true; return nil },
	},
	{
		Name: "json", Help: "with --detach: print the job as JSON; with --dry-run: print the ranks as JSON",
		set: func(r *Run, _ string) error { r.Client.JSON = true; return nil },
	},
	{
		Name: "instance", Arg: "NAME", Help: "the instance to use (default: $FILCH_INSTANCE, or the only one)",
		set: func(r *Run, v string) error { r.Client.Instance = v; return filled(v) },
	},
	{
		Name: "help", Short: 'h', Help: "this text",
		set: func(r *Run, _ string) error { r.Client.Help = true; return nil },
	},
}

func ranks(v string) (int32, error) {
	if v == "p" {
		return 0, invalid("%q is not a count", v).WithHint("filch takes -n N, not -np N")
	}
	n, err := Positive(v)
	if err == nil && n > launcher.MaxRanks {
		err = invalid("%d ranks, %d at most", n, launcher.MaxRanks)
	}
	return n, err
}

func setNodes(r *Run, v string) (err error) {
	s := &r.Request.Shape
	s.MinNodes, s.MaxNodes, err = Nodes(v)
	return err
}

func (r *Run) setGPUs(v string, to *int32, given *string) error {
	kind, n, err := Devices(v)
	if err != nil {
		return err
	}
	*to, *given, r.Client.GPUKind, r.Order.NoGPUs = n, v, kind, n == 0
	return nil
}

func setOpenMode(r *Run, v string) error {
	switch strings.ToLower(v) {
	case "a", "append":
		r.Order.IO.Append = true
	case "t", "truncate":
		r.Order.IO.Append = false
	default:
		return invalid("%s is not append or truncate", clip(v))
	}
	return nil
}

func setNoKill(r *Run, v string) error {
	switch strings.ToLower(v) {
	case "on", "":
		r.Request.Policy.NoKill = true
	case "off", "no":
		r.Request.Policy.NoKill = false
	default:
		return invalid("%s is not off", clip(v))
	}
	return nil
}

func setImmediate(r *Run, v string) error {
	d, err := Seconds(v)
	r.Request.Patient = max(d, time.Millisecond)
	return err
}

// MPITypes lists the values of --mpi.
var MPITypes = [...]string{"auto", "pmi1", "pmi2", "pmix", "none"}

func setMPI(r *Run, v string) error {
	if v == "list" {
		r.Client.MPIList = true
		return nil
	}
	for _, t := range MPITypes {
		if v == t {
			r.Order.MPI = v
			return nil
		}
	}
	return invalid("%s is not one of %s", clip(v), strings.Join(MPITypes[:], ", "))
}

func truth(v string) (bool, error) {
	switch v {
	case "0", "no", "off":
		return false, nil
	case "1", "yes", "on":
		return true, nil
	}
	return false, invalid("%s is not 0 or 1", clip(v))
}

func filled(v string) error {
	if v == "" || strings.IndexByte(v, 0) >= 0 {
		return invalid("%s is empty or holds a zero byte", clip(v))
	}
	return nil
}

// stream checks a value of -i, -o or -e.
func stream(v string) error {
	if digits(v) {
		_, err := Count(v)
		return err
	}
	return filled(v)
}

// maxJobName bounds a job's name.
const maxJobName = 255

func jobName(v string) error {
	if len(v) > maxJobName {
		return invalid("a job name of %d bytes, %d at most", len(v), maxJobName)
	}
	return filled(v)
}
