package shims

import (
	"os"
	"slices"
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
	wdir    string
	host    string // of -host; "" all hosts
	exports []string
	argv    []string
}

// mpiLine is a parsed command line.
type mpiLine struct {
	parts  []mpiPart
	shared []string // words for the whole run
	only   []string // the only variables that are passed on
	none   bool     // no variable is passed on
	hosts  string   // for all parts
	from   string   // the option with hosts
	said   []string // options without an effect here
	packed bool     // no node has more ranks than slots
	ppn    bool     // the ranks of a node are given
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
	placed, err := l.place()
	if err != nil {
		return nil, err
	}
	words = append(words, placed...)
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

// place has the options of the folder and of the hosts, which filch has for a whole run only.
func (l *mpiLine) place() (words []string, err error) {
	first := &l.parts[0]
	for i := range l.parts {
		for _, option := range [...][3]string{{"-wdir", l.parts[i].wdir, first.wdir}, {"-host", l.parts[i].host, first.host}} {
			if option[1] != option[2] {
				return nil, filch.Errorf(filch.Invalid, "filch does not do %s for a part of the command line", option[0])
			}
		}
	}
	if first.wdir != "" {
		words = append(words, "--chdir="+first.wdir)
	}
	list, from := l.hosts, l.from
	if first.host != "" {
		list, from = first.host, "-host"
	}
	if list == "" {
		return words, nil
	}
	names, most, err := mpiCounts(list, from)
	if err != nil {
		return nil, err
	}
	switch {
	case l.ppn: // goes before the counts
	case most < 0:
		return nil, filch.Errorf(filch.Invalid, "filch does not do different counts of ranks, %s, in %s", ui.Clean(list), from)
	case most > 0:
		words = append(words, "--ntasks-per-node="+strconv.Itoa(most))
	}
	if len(names) > 0 {
		words = append(words, "--nodelist="+strings.Join(names, ","))
	}
	return words, nil
}

// mpiCounts reads a:4,b,b: a count behind a host, or how often the host stands in the list,
// bounds the ranks there. A list of different hosts without a count bounds nothing. Where
// every host is localhost, the list names no node. most is -1 for different counts.
func mpiCounts(list, from string) (names []string, most int, err error) {
	counts, bounded, local := map[string]int{}, false, false
	for part := range strings.SplitSeq(list, ",") {
		name, count, counted := strings.Cut(part, ":")
		n := 1
		if counted {
			if n, err = strconv.Atoi(count); err != nil || n < 1 {
				return nil, 0, filch.Errorf(filch.Invalid, "filch cannot read %s of %s", ui.Clean(part), from)
			}
		}
		if local = local || name == "localhost" || name == "127.0.0.1"; counts[name] == 0 {
			names = append(names, name)
		}
		bounded = bounded || counted || counts[name] > 0
		counts[name] += n
	}
	if local && len(names) > 1 {
		return nil, 0, filch.Errorf(filch.Invalid, "filch does not know which node localhost is, beside other nodes of %s", from)
	}
	if local || !bounded {
		return slices.DeleteFunc(names, func(string) bool { return local }), 0, nil
	}
	most = counts[names[0]]
	for _, name := range names {
		if counts[name] != most {
			return names, -1, nil
		}
	}
	return names, most, nil
}

// mpiHosts reads hosts for the whole run.
func mpiHosts(from string) func(*mpiLine, *mpiPart, []string) error {
	return func(l *mpiLine, _ *mpiPart, v []string) error {
		if l.hosts != "" && l.hosts != v[0] {
			return filch.Errorf(filch.Invalid, "filch does not do a second list of hosts, %s", ui.Clean(v[0]))
		}
		l.hosts, l.from = v[0], from
		return nil
	}
}

// mpiHostFile reads lines like a slots=4, of Open MPI, or a:4, of Hydra.
func mpiHostFile(l *mpiLine, p *mpiPart, v []string) error {
	text, err := cli.ReadSmall(v[0])
	if err != nil {
		return filch.Errorf(filch.Invalid, "cannot read the host file: %s", ui.Cause(err))
	}
	var names []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		for _, word := range f[1:] {
			if n, is := strings.CutPrefix(word, "slots="); is && !strings.Contains(f[0], ":") {
				f[0] += ":" + n
			}
		}
		names = append(names, f[0])
	}
	return mpiHosts("-f")(l, p, []string{strings.Join(names, ",")})
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

// mpiMap reads the ways of mapping that have a meaning here: a unit, and behind colons or
// commas the modifiers.
func mpiMap(l *mpiLine, _ *mpiPart, v []string) error {
	words := strings.FieldsFunc(strings.ToLower(v[0]), func(c rune) bool { return c == ':' || c == ',' })
	if strings.HasPrefix(v[0], ":") || len(words) == 0 {
		words = append([]string{"slot"}, words...)
	}
	unit, modifiers := words[0], words[1:]
	switch {
	case unit == "node":
		l.shared = append(l.shared, "--distribution=cyclic")
	case unit == "slot", unit == "core":
		l.shared = append(l.shared, "--distribution=block")
	case unit == "ppr" && len(modifiers) > 1 && modifiers[1] == "node" && ui.AllDigits(modifiers[0]):
		l.shared, l.ppn = append(l.shared, "--ntasks-per-node="+modifiers[0]), true
		unit, modifiers = strings.Join(words[:3], ":"), modifiers[2:]
	default:
		return filch.Errorf(filch.Invalid, "filch does not map by %s", ui.Clean(v[0]))
	}
	for _, m := range modifiers {
		n, cpus := strings.CutPrefix(m, "pe=")
		switch {
		case cpus:
			l.shared = append(l.shared, "--cpus-per-task="+n)
		case m == "oversubscribe":
			l.shared = append(l.shared, "--overcommit")
		case m == "nooversubscribe":
			l.packed = true
		case m == "corecpus", m == "span" && unit == "node": // as always
		default:
			return filch.Errorf(filch.Invalid, "filch does not map by %s with %s", unit, ui.Clean(m))
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
