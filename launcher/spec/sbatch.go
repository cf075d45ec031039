package spec

import (
	"slices"
	"strconv"
	"strings"
)

// Batch holds the options of sbatch beyond srun's.
type Batch struct {
	Wrap      string // --wrap: the script itself
	Wrapped   bool
	Array     []int32 // --array, in the order given
	Parsable  bool
	Wait      bool
	Partition string
	Account   string
	Comment   string
	Unknown   string // an option that the shim does not support
}

// maxArray bounds an array, like Slurm's MaxArraySize.
const maxArray = 10001

// sbatchMore lists sbatch's options that filch run does not have or reads differently.
var sbatchMore = dialect{
	idle("bb", 0, "X"), idle("bbf", 0, "X"), idle("acctg-freq", 0, "X"), idle("clusters", 'M', "X"), idle("cluster-constraint", 0, "X"),
	idle("constraint", 'C', "X"), idle("core-spec", 'S', "N"), idle("cpu-freq", 0, "X"), idle("deadline", 0, "X"), idle("delay-boot", 0, "X"),
	idle("extra-node-info", 'B', "X"), idle("get-user-env", 0, ""), idle("gres-flags", 0, "X"), idle("hint", 0, "X"), idle("licenses", 'L', "X"),
	idle("mail-type", 0, "X"), idle("mail-user", 0, "X"), idle("mcs-label", 0, "X"), idle("mem-bind", 0, "X"), idle("network", 0, "X"),
	idleMaybe("nice", 0), idle("no-requeue", 0, ""), idle("ntasks-per-core", 0, "N"), idle("ntasks-per-socket", 0, "N"),
	idleMaybe("oversubscribe", 's'), idle("power", 0, "X"), idle("prefer", 0, "X"), idle("priority", 0, "N"), idle("profile", 0, "X"),
	idleMaybe("propagate", 0), idle("qos", 'q', "NAME"), idle("reboot", 0, ""), idle("reservation", 0, "NAME"), idle("sockets-per-node", 0, "N"),
	idle("spread-job", 0, ""), idle("switches", 0, "X"), idle("thread-spec", 0, "N"), idle("threads-per-core", 0, "N"), idle("time-min", 0, "X"),
	idle("tmp", 0, "X"), idle("use-min-nodes", 0, ""), idle("wckey", 0, "X"), idle("ignore-pbs", 0, ""),
	undone("begin", 'b', "X"), undone("dependency", 'd', "X"), undone("hold", 'H', ""), undone("gpus", 'G', "X"), undone("gpus-per-node", 0, "X"),
	undone("nodefile", 'F', "X"), undone("test-only", 0, ""), undone("uid", 0, "X"), undone("gid", 0, "X"), undone("export-file", 0, "X"),
	undone("relative", 'r', "X"), undone("multi-prog", 0, ""), undone("pty", 0, ""), undone("bcast", 0, "X"),
	{Name: "gres", Arg: "X", set: func(r *Run, v string) error {
		if strings.HasPrefix(v, "gpu") {
			r.Client.Batch.Unknown = "--gres=" + v
		}
		return nil
	}},
	batchWord("account", 'A', func(b *Batch) *string { return &b.Account }),
	batchWord("partition", 'p', func(b *Batch) *string { return &b.Partition }),
	batchWord("comment", 0, func(b *Batch) *string { return &b.Comment }),
	{Name: "wrap", Arg: "COMMAND", set: func(r *Run, v string) error {
		r.Client.Batch.Wrap, r.Client.Batch.Wrapped = v, true
		return nil
	}},
	{Name: "array", Short: 'a', Arg: "LIST", set: func(r *Run, v string) (err error) { r.Client.Batch.Array, err = Indices(v); return err }},
	{Name: "parsable", set: func(r *Run, _ string) error { r.Client.Batch.Parsable = true; return nil }},
	{Name: "wait", Short: 'W', set: func(r *Run, _ string) error { r.Client.Batch.Wait = true; return nil }},
	{Name: "exclusive", Arg: "X", Optional: "-", set: func(r *Run, _ string) error { r.Request.Shape.Exclusive = true; return nil }},
	{Name: "signal", Arg: "X", set: func(r *Run, v string) (err error) {
		r.Request.Policy.WarnSig, r.Request.Policy.WarnTime, err = Warning(v)
		return err
	}},
}

func undone(name string, short byte, arg string) Option {
	return Option{Name: name, Short: short, Arg: arg, set: func(r *Run, _ string) error {
		r.Client.Batch.Unknown = "--" + name
		return nil
	}}
}

func batchWord(name string, short byte, of func(*Batch) *string) Option {
	return Option{Name: name, Short: short, Arg: "X", set: func(r *Run, v string) error { *of(&r.Client.Batch) = v; return nil }}
}

// ParseSbatch reads the words behind sbatch. [Run.Directives] applies directives once
// the script is known.
func ParseSbatch(args []string) (*Run, error) {
	r := newRun()
	var err error
	r.Argv, err = sbatchMore.scan(args, r.Set)
	r.Order.SlurmEnv, r.Client.Srun = true, true
	r.Request.Detach = true
	return r, err
}

// Directives applies the #SBATCH lines of a script, up to the first command. The
// command line has precedence over directives.
func (r *Run) Directives(script string) error {
	told := r.given
	lines, err := ReadDirectives(script, "#SBATCH")
	if err != nil {
		return err
	}
	for _, words := range lines {
		if _, err := sbatchMore.scan(words, func(o *Option, v string) error {
			if slices.Contains(told, o.Name) {
				return nil
			}
			return r.Set(o, v)
		}); err != nil {
			return err
		}
	}
	return nil
}

// ReadDirectives returns the words of the lines of a script that begin with mark, like
// #SBATCH, up to the first command.
func ReadDirectives(script, mark string) ([][]string, error) {
	var all [][]string
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		rest, ours := strings.CutPrefix(line, mark)
		switch {
		case ours && rest != "" && (rest[0] == ' ' || rest[0] == '\t'):
			words, err := splitWords(rest)
			if err != nil {
				return nil, invalid("%s in a line of %s", err.Error(), mark)
			}
			all = append(all, words)
		case line == "" || line[0] == '#':
		default:
			return all, nil
		}
	}
	return all, nil
}

// SbatchDirective is an option of an #SBATCH line.
type SbatchDirective struct {
	Name, Value string // Value is "true" of an option without a value
	Idle        bool   // filch does not need the option
}

// SbatchDirectives returns the options of the #SBATCH lines of a script.
func SbatchDirectives(script string) (all []SbatchDirective, err error) {
	lines, err := ReadDirectives(script, "#SBATCH")
	for _, words := range lines {
		if err != nil {
			break
		}
		_, err = sbatchMore.scan(words, func(o *Option, v string) error {
			d := SbatchDirective{Name: o.Name, Value: v}
			if o.Arg == "" {
				d.Value = "true"
			}
			switch o.Name {
			case "partition", "account", "comment", "parsable", "requeue", "ntasks", "nodes", "ntasks-per-node":
				r := newRun()
				if err := r.Set(o, v); err != nil {
					return err
				}
				d.Idle = r.Request.Shape.Ranks <= 1 && r.Request.Shape.MaxNodes <= 1 && r.Request.Shape.PerNode <= 1
			default:
				d.Idle = o.idle
			}
			all = append(all, d)
			return nil
		})
	}
	return all, err
}

// splitWords splits s as a shell would, with quotes but without expansion; a word that
// begins with # ends the line.
func splitWords(s string) ([]string, error) {
	var words []string
	var b strings.Builder
	var quote byte
	in := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, in = c, true
		case quote != '\'' && c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
			in = true
		case quote == 0 && (c == ' ' || c == '\t'):
			if in {
				words = append(words, b.String())
				b.Reset()
			}
			in = false
		case quote == 0 && c == '#' && !in:
			return words, nil
		default:
			b.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, invalid("a quote without its end")
	}
	if in {
		words = append(words, b.String())
	}
	return words, nil
}

// Indices reads the value of --array: 1,3,5-9:2.
func Indices(s string) ([]int32, error) {
	var all []int32
	seen := map[int32]bool{}
	for part := range strings.SplitSeq(s, ",") {
		if strings.Contains(part, "%") {
			return nil, invalid("%s: filch cannot limit how many tasks of an array run at a time", clip(s))
		}
		span, by, stepped := strings.Cut(part, ":")
		low, high, ranged := strings.Cut(span, "-")
		first, err := strconv.ParseUint(low, 10, 31)
		last, step := first, uint64(1)
		if err == nil && ranged {
			last, err = strconv.ParseUint(high, 10, 31)
		}
		if err == nil && stepped {
			step, err = strconv.ParseUint(by, 10, 31)
		}
		if err != nil || last < first || step == 0 || last >= maxArray {
			return nil, invalid("%s is not a list of indices below %d", clip(s), maxArray)
		}
		for i := first; i <= last; i += step {
			if !seen[int32(i)] {
				seen[int32(i)] = true
				all = append(all, int32(i))
			}
		}
	}
	return all, nil
}
