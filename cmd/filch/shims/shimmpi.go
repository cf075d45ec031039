package shims

import (
	"os"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
)

// mpiexecMain is mpiexec and mpirun: options of Hydra and of Open MPI, translated
// to options of filch run. A failing rank ends the job, and the rank's exit code
// is the job's.
func mpiexecMain(args []string) int {
	l, err := readMPI(args)
	if err != nil {
		return handOn(err.Error())
	}
	words, err := l.words()
	if err != nil {
		return handOn(err.Error())
	}
	r, err := spec.Parse(words)
	if err != nil {
		return handOn(err.Error())
	}
	r.Client.Said = l.said
	runclient.Dialect.TimeOption = "-timeout"
	runclient.Dialect.Code = func(_ launcher.CauseKind, code int32) int {
		if code == filch.ExitOurs {
			return ui.Self.Fault
		}
		return int(code)
	}
	if !r.Request.Shape.Overcommit && !l.packed {
		runclient.Dialect.Crowded = func(e *filch.Error) int { return mpiexecCrowded(words, r, e) }
	}
	return shimRun(r)
}

// mpiexecCrowded starts more ranks than there are slots, as the other launchers
// do: over all machines, or on the node of the command if there is only one
// machine.
func mpiexecCrowded(words []string, r *spec.Run, e *filch.Error) int {
	runclient.Dialect.Crowded = nil
	ui.Say(e.Text + ": several ranks share a slot")
	more := []string{"--overcommit"}
	if s := &r.Request.Shape; s.MinNodes == 0 && len(s.Only) == 0 {
		if n := len(cli.Machines(r.Client.Instance, nil)); n > 1 {
			more = append(more, "--nodes="+strconv.Itoa(n))
		}
	}
	again, err := spec.Parse(append(more, words...))
	if err != nil {
		return ui.Fail(err)
	}
	return shimRun(again)
}

// mpiPart is a part of a command line with colons.
type mpiPart struct {
	ranks   string
	exports []string
	argv    []string
}

// mpiLine is a parsed command line.
type mpiLine struct {
	parts  []mpiPart
	shared []string // words for the whole run
	only   []string // the only variables that are passed on
	none   bool     // no variable is passed on
	hosts  string
	said   []string // options without an effect here
	packed bool     // no node has more ranks than slots
}

func passes(words ...string) func(*mpiLine, *mpiPart, []string) error {
	return func(l *mpiLine, _ *mpiPart, v []string) error {
		l.shared = append(l.shared, words...)
		if len(v) > 0 {
			l.shared[len(l.shared)-1] += v[0]
		}
		return nil
	}
}

func exported(_ *mpiLine, p *mpiPart, v []string) error {
	p.exports = append(p.exports, v[0]+"="+v[1])
	return nil
}

// mpiexecWords translates a command line to options of filch run.
func mpiexecWords(args []string) ([]string, error) {
	l, err := readMPI(args)
	if err != nil {
		return nil, err
	}
	return l.words()
}

// readMPI reads a command line.
func readMPI(args []string) (*mpiLine, error) {
	l := &mpiLine{}
	for {
		p := mpiPart{}
		for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
			rest, err := l.option(&p, args)
			if err != nil {
				return nil, err
			}
			args = rest
		}
		colon := len(args)
		for i, a := range args {
			if a == ":" {
				colon = i
				break
			}
		}
		p.argv = args[:colon]
		l.parts = append(l.parts, p)
		if colon == len(args) {
			return l, nil
		}
		args = args[colon+1:]
	}
}

// option reads the option in front of args, and returns the words behind.
func (l *mpiLine) option(p *mpiPart, args []string) ([]string, error) {
	word, value, glued := strings.Cut(args[0], "=")
	o := mpiOptionOf(strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-"))
	switch {
	case o == nil:
		return nil, filch.Errorf(filch.Invalid, "filch does not know the option %s", ui.Clean(args[0]))
	case o.Fate == spec.Left:
		return nil, filch.Errorf(filch.Invalid, "filch does not do %s%s", word, instead(o.Note))
	case o.Fate == spec.Said:
		l.said = append(l.said, "filch does not do "+word+": "+o.Note)
	}
	args = args[1:]
	want := len(o.values)
	if o.maybe != nil && (len(args) == 0 || !o.maybe(args[0])) {
		want = 0
	}
	values := []string{value}
	if !glued || want != 1 {
		if len(args) < want {
			return nil, filch.Errorf(filch.Invalid, "the option %s needs %d values", word, want)
		}
		values, args = args[:want], args[want:]
	}
	if o.act == nil {
		return args, nil
	}
	return args, o.act(l, p, values)
}

// words writes the parsed line as options of filch run. MPI's standard input goes
// to rank 0 unless an option decides.
func (l *mpiLine) words() ([]string, error) {
	words := []string{"--input=0"}
	if v := os.Getenv("MPIEXEC_TIMEOUT"); v != "" {
		if n, err := strconv.ParseUint(v, 10, 31); err != nil || n == 0 {
			return nil, filch.Errorf(filch.Invalid, "filch cannot read MPIEXEC_TIMEOUT=%s: the value must be a number of seconds", ui.Clean(v))
		}
		words = append(words, "--time=0:"+v)
	}
	words = append(words, l.shared...)
	if l.hosts != "" {
		words = append(words, "--nodelist="+l.hosts)
	}
	for i, p := range l.parts {
		if i > 0 {
			words = append(words, ":")
		}
		if p.ranks == "" && len(l.parts) == 1 {
			p.ranks = os.Getenv("SLURM_NTASKS")
		}
		if p.ranks == "" {
			p.ranks = "1"
		}
		words = append(words, "--ntasks="+p.ranks)
		rule := "ALL"
		if i == 0 && (l.none || len(l.only) > 0) {
			rule = "PATH"
		}
		for _, name := range l.only {
			if i == 0 {
				rule += "," + name
			}
		}
		for _, e := range p.exports {
			name, value, _ := strings.Cut(e, "=")
			if strings.ContainsAny(value, `'"`) {
				return nil, filch.Errorf(filch.Invalid, "filch cannot pass on a quote in %s", ui.Clean(name))
			}
			rule += "," + name + "='" + value + "'"
		}
		if rule != "ALL" {
			words = append(words, "--export="+rule)
		}
		words = append(words, p.argv...)
	}
	return words, nil
}

// mpiHosts reads a:4,b. Counts are left to the nodes' own slots.
func mpiHosts(l *mpiLine, _ *mpiPart, v []string) error {
	var names []string
	for part := range strings.SplitSeq(v[0], ",") {
		name, _, _ := strings.Cut(part, ":")
		if name == "localhost" || name == "127.0.0.1" {
			return nil
		}
		names = append(names, name)
	}
	l.hosts = strings.Join(names, ",")
	return nil
}

func mpiHostFile(l *mpiLine, p *mpiPart, v []string) error {
	text, err := cli.ReadSmall(v[0])
	if err != nil {
		return filch.Errorf(filch.Invalid, "cannot read the host file: %s", ui.Cause(err))
	}
	var names []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 0 {
			names = append(names, f[0])
		}
	}
	return mpiHosts(l, p, []string{strings.Join(names, ",")})
}

// mpiMCA sets a parameter of Open MPI; parameters of Open MPI's launcher mean
// nothing here.
func mpiMCA(_ *mpiLine, p *mpiPart, v []string) error {
	for _, room := range []string{"plm", "ras", "rmaps", "orte", "odls", "ess", "oob", "routed", "hwloc_base_binding", "plm_rsh"} {
		if v[0] == room || strings.HasPrefix(v[0], room+"_") {
			return nil
		}
	}
	p.exports = append(p.exports, "OMPI_MCA_"+v[0]+"="+v[1])
	return nil
}

// mpiX exports a variable, with its present value or a new value.
func mpiX(p *mpiPart, word string) error {
	name, value, set := strings.Cut(word, "=")
	if !set {
		if value, set = os.LookupEnv(name); !set {
			return nil
		}
	}
	p.exports = append(p.exports, name+"="+value)
	return nil
}

func mpiEnvList(l *mpiLine, _ *mpiPart, v []string) error {
	l.only = append(l.only, strings.Split(v[0], ",")...)
	return nil
}

// mpiPattern translates Hydra's %r, a rank, and %h, a host.
func mpiPattern(option string) func(*mpiLine, *mpiPart, []string) error {
	return func(l *mpiLine, _ *mpiPart, v []string) error {
		l.shared = append(l.shared, option+strings.NewReplacer("%r", "%t", "%h", "%N").Replace(v[0]))
		return nil
	}
}

// mpiMap reads the ways of mapping that have a meaning here.
func mpiMap(l *mpiLine, _ *mpiPart, v []string) error {
	way, _, _ := strings.Cut(strings.ToLower(v[0]), ",")
	if rest, ok := strings.CutPrefix(way, "ppr:"); ok {
		count, unit, _ := strings.Cut(rest, ":")
		unit, _, _ = strings.Cut(unit, ":")
		if _, err := strconv.Atoi(count); err != nil || unit != "node" {
			return filch.Errorf(filch.Invalid, "filch does not map by %s", ui.Clean(v[0]))
		}
		l.shared = append(l.shared, "--ntasks-per-node="+count)
		return nil
	}
	unit, more, _ := strings.Cut(way, ":")
	switch unit {
	case "node":
		l.shared = append(l.shared, "--distribution=cyclic")
	case "slot", "core", "":
		l.shared = append(l.shared, "--distribution=block")
	default:
		return filch.Errorf(filch.Invalid, "filch does not map by %s", ui.Clean(v[0]))
	}
	for part := range strings.SplitSeq(more, ":") {
		if n, ok := strings.CutPrefix(part, "pe="); ok {
			l.shared = append(l.shared, "--cpus-per-task="+n)
		} else if part == "oversubscribe" {
			l.shared = append(l.shared, "--overcommit")
		}
	}
	return nil
}

// mpiBind translates the ways of binding; filch run refuses a way that it does not do.
func mpiBind(l *mpiLine, _ *mpiPart, v []string) error {
	way, more, _ := strings.Cut(strings.ToLower(v[0]), ":")
	switch way {
	case "none":
		way = "none"
	case "core":
		way = "cores"
	case "hwthread":
		way = "threads"
	case "socket":
		way = "sockets"
	case "numa":
		way = "ldoms"
	default:
		return filch.Errorf(filch.Invalid, "filch does not bind to %s", ui.Clean(v[0]))
	}
	switch more {
	case "", "overload-allowed", "if-supported": // filch binds where it can
	default:
		return filch.Errorf(filch.Invalid, "filch does not bind to %s", ui.Clean(v[0]))
	}
	l.shared = append(l.shared, "--cpu-bind="+way)
	return nil
}

func mpiTimeout(l *mpiLine, _ *mpiPart, v []string) error {
	l.shared = append(l.shared, "--time=0:"+v[0])
	return nil
}
