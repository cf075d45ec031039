package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/slurmenv"
)

// KillWaitDefault is the time from TERM to KILL.
const KillWaitDefault = 10 * time.Second

// Run is a parsed command line of filch run: the request and its order, complete only
// after [Run.Finish], and the settings of the client itself.
type Run struct {
	Request launcher.Request
	Order   launcher.Order
	Export  Export
	Client  Client
	Argv    []string
	Parts   []*Run // the parts behind the colons of an `a : b` run
	given   []string
}

// Client holds the settings that the client acts on, and settings without a place in a
// request before the whole command line is read.
type Client struct {
	// Values of options as given, for later steps; "" when not given.
	Only, Exclude         string
	Stdin, Stdout, Stderr string
	Bcast                 string // - when without a path
	Instance              string

	Env        []string // --env
	Srun       bool     // the options are srun's or sbatch's: the ranks get srun's variables only
	Mem        int64    // --mem, per node
	GPUs       int32    // -G, thousandths
	GPUKind    string   // the label of the nodes with the GPUs; "" any
	MemPerCPU  int64    // --mem-per-cpu
	Verbose    int      // how often -v
	Quiet      bool
	Fold       bool // equal lines of ranks show once
	MultiProg  bool
	Pty        bool
	NewJob     bool
	DryRun     bool
	Hold       bool   // the job waits until filch release
	Deps       Deps   // --dep
	OnEnd      string // a command to run after the end of the job
	JSON       bool
	Help       bool
	MPIList    bool
	Foreign    string           // an option of another command that filch does not do
	Instead    string           // of Foreign: what to use
	Said       []string         // warnings: options of another command without an effect here
	QuitFirst  bool             // the first Ctrl-C ends the job
	Allocation string           // srun --jobid
	Batch      Batch            // of sbatch
	Limits     Limits           // --propagate
	Slurm      slurmenv.Options // options as given, for SLURM_*
	Around     []filch.NodeName // the nodes of the allocation around an srun step
}

// Parse reads the words behind `filch run`.
func Parse(args []string) (*Run, error) { return parse(newRun(), args, nil) }

// parse reads the words of a command on top of r.
func parse(r *Run, args []string, t Table) (*Run, error) {
	first, rest := cutPart(args)
	var err error
	if r.Argv, err = t.scan(first, r.Set); err != nil {
		return nil, err
	}
	for rest != nil && !r.Client.Help {
		var part []string
		part, rest = cutPart(rest)
		p := newRun()
		if p.Argv, err = t.scan(part, p.Set); err != nil {
			return nil, err
		}
		r.Client.Said = append(r.Client.Said, p.Client.Said...)
		for _, name := range p.given {
			if o, ours := lookup(name); ours && !o.Part {
				return nil, invalid("--%s may stand only before the first command of an `a : b` run", name)
			}
		}
		r.Parts = append(r.Parts, p)
	}
	return r, r.check()
}

// cutPart cuts args at the first word that is a colon; rest is nil without a colon.
func cutPart(args []string) (part, rest []string) {
	for i, a := range args {
		if a == ":" {
			return args[:i], args[i+1:]
		}
	}
	return args, nil
}

func newRun() *Run {
	r := &Run{}
	r.Request.Policy.KillOnBad = true
	r.Request.Policy.KillWait = KillWaitDefault
	r.Order.IO.OutRank, r.Order.IO.ErrRank = -1, -1
	r.Order.MPI = "auto"
	return r
}

// check refuses options that exclude each other.
func (r *Run) check() error {
	if r.Client.Help || r.Client.MPIList || r.Client.Foreign != "" {
		return nil
	}
	for _, p := range append([]*Run{r}, r.Parts...) {
		if err := p.checkCommand(); err != nil {
			return err
		}
	}
	for _, pair := range [...][2]string{
		{"multi-prog", "bcast"},
		{"pty", "detach"},
		{"pty", "input"},
		{"pty", "output"},
		{"pty", "error"},
		{"pty", "label"},
		{"mem", "mem-per-cpu"},
		{"detach", "immediate"},
		{"detach", "dry-run"},
		{"immediate", "dep"},
		{"immediate", "begin"},
		{"quiet", "verbose"},
	} {
		if r.isGiven(pair[0]) && r.isGiven(pair[1]) {
			return invalid("--%s and --%s exclude each other", pair[0], pair[1])
		}
	}
	switch {
	case r.Client.JSON && !r.Request.Detach && !r.Client.DryRun:
		return invalid("--json needs --detach or --dry-run")
	case r.Request.Durable && !r.Request.Detach:
		return invalid("--durable needs --detach")
	case len(r.Parts) > 0 && (r.Client.MultiProg || r.Client.Bcast != ""):
		return invalid("--multi-prog and --bcast do not go with an `a : b` run")
	}
	return nil
}

func (r *Run) checkCommand() error {
	if len(r.Argv) == 0 {
		return invalid("no command to run").WithHint("filch run -n 4 hostname")
	}
	if r.Argv[0] == "" {
		return invalid("the command is empty")
	}
	return nil
}

// Context is the part of the client's environment that [Run.Finish] needs.
type Context struct {
	Env      []string
	Cwd      string
	Job      filch.JobID // of the job around the client; 0 none
	Task     uint64      // of Job, in the node's numbering; 0 none
	ReadFile func(path string) (string, error)
	// The submitter, for SLURM_*.
	Submitter func() slurmenv.Submitter
}

// Finish applies the rules that need the whole command line and completes the request
// and the order, except values that only the operating system has (umask, limits, the
// terminal). The warnings are srun's.
func (r *Run) Finish(c Context) (warnings []string, err error) {
	if err := r.checkCommand(); err != nil {
		return nil, err
	}
	if err := r.finishNodes(c); err != nil {
		return nil, err
	}
	programs, err := r.programs(c)
	if err != nil {
		return nil, err
	}
	warnings = r.settle()
	more, err := r.finishShape()
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, more...)
	r.Order.Programs = programs
	if len(programs) == 1 && !r.Client.MultiProg {
		r.Order.Programs[0].Ranks = []launcher.Span{{Count: r.most()}}
	}
	for _, p := range programs {
		if w := Launches(p.Argv, r.most()); w != "" && !r.Client.Srun {
			warnings = append(warnings, w)
		}
	}
	r.finishMemory()
	if err := r.finishIO(); err != nil {
		return nil, err
	}
	r.Request.Inside = launcher.Inside{Job: c.Job, Task: c.Task}
	if !r.Client.NewJob {
		r.Request.Parent, r.Request.Task = c.Job, c.Task
	}
	env := append(r.Export.Filter(c.Env), r.Client.Env...)
	if r.Order.Slurm != nil {
		env = r.withSlurm(env, c)
	}
	if r.Client.Srun {
		r.Order.Env = env
	} else {
		r.Order.Env = WithCPUs(env, c.Env, append(slices.Clip(r.Export.Sets), r.Client.Env...), r.cpusGiven())
	}
	if r.Order.Cwd == "" {
		r.Order.Cwd = c.Cwd
	} else if !filepath.IsAbs(r.Order.Cwd) {
		r.Order.Cwd = filepath.Join(c.Cwd, r.Order.Cwd)
	}
	r.Request.Like = Like(r.Request.Name, r.Argv)
	if r.Request.Name == "" {
		r.Request.Name = defaultName(r.Argv[0])
	}
	return warnings, nil
}

// cpusGiven is the value of -c; 0 without -c.
func (r *Run) cpusGiven() int32 {
	if !r.isGiven("cpus-per-task") {
		return 0
	}
	return r.Request.Shape.PerRank.Slots
}

// maxLike bounds the result of Like, in bytes.
const maxLike = 200

// Like returns the label shared by runs and tasks that may be expected to take equally
// long: the given name, else the command line. The default name, derived from the
// program, would join all scripts of an interpreter.
func Like(name string, argv []string) string {
	if name == "" {
		name = strings.Join(argv, " ")
	}
	if len(name) > maxLike {
		sum := sha256.Sum256([]byte(name))
		name = name[:maxLike-17] + "#" + hex.EncodeToString(sum[:8])
	}
	return name
}

func defaultName(command string) string {
	name := filepath.Base(command)
	return name[:min(len(name), maxJobName)]
}

func (r *Run) finishNodes(c Context) (err error) {
	s := &r.Request.Shape
	if s.Only, err = nodeList("nodelist", r.Client.Only, c); err != nil {
		return err
	}
	if s.Exclude, err = nodeList("exclude", r.Client.Exclude, c); err != nil {
		return err
	}
	for _, x := range s.Exclude {
		if slices.Contains(s.Only, x) {
			return invalid("node %s is both asked for (-w) and excluded (-x)", x)
		}
	}
	return nil
}

// nodeList reads a hostlist, or a file of hostlists if the value has a slash.
func nodeList(option, value string, c Context) ([]filch.NodeName, error) {
	if value == "" {
		return nil, nil
	}
	list := value
	if strings.IndexByte(value, '/') >= 0 {
		text, err := c.ReadFile(value)
		if err != nil {
			return nil, invalid("--%s: cannot read the file %s: %v", option, clip(value), err)
		}
		list = strings.Join(strings.FieldsFunc(text, func(c rune) bool {
			return c == '\n' || c == ' ' || c == '\t' || c == '\r'
		}), ",")
	}
	names, err := Hosts(list)
	if err != nil {
		return nil, invalid("--%s: %v", option, err)
	}
	return names, nil
}
