package tasks

import (
	"strconv"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/needs"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// gangFlags make each task a gang: they are options of filch run, with the same meaning.
type gangFlags struct {
	ranks, nodes, perNode, spare, layout, mpi, bind, bcast string
	exclusive                                              bool
}

func (f *gangFlags) declareGang(p *pflag.FlagSet) {
	p.StringVarP(&f.ranks, "ntasks", "n", "", "each task is a gang of `N` ranks that start together, as those of filch run -n N")
	p.StringVarP(&f.nodes, "nodes", "N", "", "`MIN[-MAX]` nodes for each gang")
	p.StringVar(&f.perNode, "ntasks-per-node", "", "at most `N` ranks of a gang on a node")
	p.StringVar(&f.spare, "spare", "", "hold `N` more nodes for each gang, on which the gang starts again at once when a node is lost")
	p.StringVarP(&f.layout, "distribution", "m", "", "order of a gang's ranks over its nodes: `WAY` is block, cyclic or plane=SIZE")
	p.StringVar(&f.mpi, "mpi", "", "how the ranks of a gang wire up: `TYPE` is auto, pmi1, pmi2, pmix or none")
	p.StringVar(&f.bind, "cpu-bind", "", "bind the ranks of a gang to CPUs: `HOW` is none, rank, threads, cores, sockets, ldoms ...")
	p.BoolVar(&f.exclusive, "exclusive", false, "give each gang whole nodes")
	p.StringVar(&f.bcast, "bcast", "", "first copy the program of the gangs and its libraries to their nodes, each node once: to a private folder, or to `PATH`")
	p.Lookup("bcast").NoOptDefVal = "-"
}

// isGangOption reports whether an option makes tasks gangs.
func isGangOption(name string) bool {
	p := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&gangFlags{}).declareGang(p)
	return p.Lookup(name) != nil
}

// gangs reports whether the tasks are gangs.
func (f *gangFlags) gangs() bool { return *f != (gangFlags{}) }

// noGang is the reason why no task of the job can be a gang.
func (f *submitFlags) noGang(command []string) error {
	switch {
	case f.spare != "" && (f.once || f.crashes == 0):
		return filch.Errorf(filch.Invalid, "--spare %s holds nodes for the next start of a gang that lost a node, and with %s there is none", f.spare, once(f.once)).
			WithHint("leave one of the two out")
	case f.worker:
		return filch.Errorf(filch.Invalid, "--worker runs many tasks in one process, and a gang has processes of its own")
	case f.builtin != "":
		return filch.Errorf(filch.Invalid, "--builtin starts no process, and a gang has processes")
	case f.bcast != "" && (f.open || f.eachLine != "" && len(command) == 0 || f.fromJSON != ""):
		return filch.Errorf(filch.Invalid, "--bcast copies the program of one command, and the tasks have commands of their own").
			WithHint("filch submit -n N --bcast --array 1-9 -- PROGRAM {}")
	case f.bcast != "" && len(command) > 0 && workflow.HasPlaces(command[0]):
		return filch.Errorf(filch.Invalid, "--bcast copies one program, and %s is another for each task", ui.Clean(command[0]))
	case f.stages():
		return filch.Errorf(filch.Invalid, "--stage-in and --stage-out are for tasks of one process").
			WithHint("in a workflow file, tasks with ranks have inputs and outputs")
	}
	return nil
}

func once(is bool) string {
	if is {
		return "--once"
	}
	return "--crash-limit 0"
}

// gang reads the options of gangs into the spec, as filch run reads them, and returns what
// all gangs have in common; nil if tasks are no gangs.
func (f *submitFlags) gang(around spec.Context, sp *record.Spec) (*launcher.GangOrder, error) {
	if !f.gangs() {
		return nil, nil
	}
	args := []string{"-c", strconv.Itoa(int(f.cpus))}
	for _, o := range []struct{ name, value string }{
		{"ntasks", f.ranks},
		{"nodes", f.nodes},
		{"ntasks-per-node", f.perNode},
		{"spare", f.spare},
		{"distribution", f.layout},
		{"mpi", f.mpi},
		{"cpu-bind", f.bind},
		{"mem", f.mem},
		{"gpus-per-task", f.gpus.perRank},
		{"gpus-per-node", f.gpus.perNode},
		{"gpus", f.gpus.all},
		{"nodelist", f.where.only},
		{"exclude", f.where.exclude},
		{"constraint", f.where.labels},
		{"resource", f.where.resources},
	} {
		if o.value != "" {
			args = append(args, "--"+o.name+"="+o.value)
		}
	}
	if f.exclusive {
		args = append(args, "--exclusive")
	}
	r, err := spec.Parse(append(args, "gang"))
	if err != nil {
		return nil, err
	}
	around.Job, around.Task = 0, 0 // a gang is no step
	warnings, err := r.Finish(around)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		ui.Warn(w)
	}
	f.shape = r.SlurmOptions()
	s := r.Request.Shape
	if s.Ranks == 0 {
		return nil, filch.Errorf(filch.Invalid, "-N %s leaves the number of ranks open", f.nodes).WithHint("-n N sets the number of ranks of each gang")
	}
	sp.Each = s.PerRank
	if n := s.Nodes(); len(n.Only)+len(n.Exclude) > 0 || n.Labels != "" {
		sp.Nodes = &n
	}
	if sp.Gang, err = needs.GangOf(&s, sp.Nodes); err != nil {
		return nil, err
	}
	return &launcher.GangOrder{Shape: s, Policy: r.Request.Policy, MPI: r.Order.MPI, Bind: r.Order.Bind}, nil
}

// gangTextMax bounds the command of a gang with the names of its files, in bytes. With the
// environment they are the order that each node gets.
const gangTextMax = launcher.MaxOrderBytes / 2
