package spec

import (
	"errors"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
)

// Option is one option of filch run.
type Option struct {
	Name     string
	Short    byte   // 0 none
	Arg      string // name of the value in the help; "" takes no value
	Optional string // the value when none is given: -K is -K1; "" the value must be given
	Part     bool   // may stand in every part of an `a : b` run
	Help     string
	Fate     Fate   // of an option of another command: what its shim does
	Note     string // of an option of another command: what filch does, or what to use instead
	idle     bool   // changes nothing
	set      func(*Run, string) error
}

// lookup finds an option by its name.
func lookup(name string) (*Option, bool) {
	for i := range Options {
		if Options[i].Name == name {
			return &Options[i], true
		}
	}
	return nil, false
}

// synonyms are other names of options of filch run: names of other commands of filch
// for the same.
var synonyms = [...][2]string{
	{"cwd", "chdir"},
	{"folder", "chdir"},
	{"name", "job-name"},
	{"time-limit", "time"},
	{"cpus", "cpus-per-task"},
	{"stdin", "input"},
	{"stdout", "output"},
	{"stderr", "error"},
}

// Synonym returns the name that every command of filch knows for an option by another
// name; the name itself if there is none.
func Synonym(name string) string {
	for _, s := range synonyms {
		if s[0] == name {
			return s[1]
		}
	}
	return name
}

// Set gives an option its value, as if it had been read from a command line.
func (r *Run) Set(o *Option, value string) error {
	if err := o.set(r, value); err != nil {
		e := invalid("--%s: %v", o.Name, err)
		var told *filch.Error
		if errors.As(err, &told) {
			e.Hint = told.Hint
		}
		return e
	}
	r.given = append(r.given, o.Name)
	r.meet(o)
	return nil
}

// isGiven reports whether an option was set.
func (r *Run) isGiven(name string) bool {
	return slices.Contains(r.given, name)
}

// each goes through the options: the table's, or those of filch run for an empty table.
func (t Table) each(yield func(*Option) bool) {
	if len(t) == 0 {
		t = Options[:]
	}
	for i := range t {
		if !yield(&t[i]) {
			return
		}
	}
}

// scan reads the options at the front of args, as getopt does under POSIX rules:
// options end at the first word that is none, or behind --. scan returns the words
// after the options.
func (t Table) scan(args []string, set func(*Option, string) error) ([]string, error) {
	for len(args) > 0 {
		word := args[0]
		if word == "--" {
			return args[1:], nil
		}
		if len(word) < 2 || word[0] != '-' {
			break
		}
		args = args[1:]
		var err error
		if word[1] == '-' {
			args, err = t.scanLong(word[2:], args, set)
		} else {
			args, err = t.scanShort(word[1:], args, set)
		}
		if err != nil {
			return nil, err
		}
	}
	return args, nil
}

func (t Table) scanLong(word string, rest []string, set func(*Option, string) error) ([]string, error) {
	name, value, valued := strings.Cut(word, "=")
	o, err := t.find(name)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Arg == "" && valued:
		return nil, invalid("option --%s takes no value", o.Name)
	case o.Arg == "" || valued:
	case o.Optional != "":
		value = o.Optional
	case len(rest) == 0:
		return nil, invalid("option --%s needs a value: %s", o.Name, o.Arg)
	default:
		value, rest = rest[0], rest[1:]
	}
	return rest, set(o, value)
}

// scanShort reads a cluster of short options, -lK1 or -n4.
func (t Table) scanShort(word string, rest []string, set func(*Option, string) error) ([]string, error) {
	for word != "" {
		o := t.short(word[0])
		if o == nil {
			return nil, t.unknown(clip("-"+word[:1]), "")
		}
		word = word[1:]
		value := ""
		switch {
		case o.Arg == "":
		case word != "":
			value, word = word, ""
		case o.Optional != "":
			value = o.Optional
		case len(rest) == 0:
			return nil, invalid("option -%c (--%s) needs a value: %s", o.Short, o.Name, o.Arg)
		default:
			value, rest = rest[0], rest[1:]
		}
		if err := set(o, value); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func (t Table) short(c byte) *Option {
	for o := range t.each {
		if o.Short == c && c != 0 {
			return o
		}
	}
	return nil
}

// find finds a long option by its name or, as getopt_long does, by a unique prefix.
func (t Table) find(name string) (*Option, error) {
	if _, own := lookup(name); t == nil && !own {
		name = Synonym(name)
	}
	var found *Option
	var also []string
	for o := range t.each {
		switch {
		case o.Name == name:
			return o, nil
		case name != "" && strings.HasPrefix(o.Name, name):
			found = o
			also = append(also, "--"+o.Name)
		}
	}
	if len(also) == 1 {
		return found, nil
	}
	if len(also) > 1 {
		return nil, invalid("option %s is ambiguous", cleanOption(name)).WithHint("it may be %s", strings.Join(also, " or "))
	}
	return nil, t.unknown(cleanOption(name), name)
}

// unknown is the error for an option that the table lacks.
func (t Table) unknown(word, name string) error {
	err := invalid("unknown option %s", word)
	switch near := t.nearest(name); {
	case t != nil && near == "":
		return err
	case t == nil && name == "np": // of mpiexec
		return err.WithHint("did you mean -n?")
	case near != "":
		return err.WithHint("did you mean --%s?", near)
	}
	return err.WithHint("filch run --help lists them")
}

func cleanOption(name string) string {
	q := clip("--" + name)
	if len(q) == len(name)+4 {
		return "--" + name // no byte of the name was escaped or cut
	}
	return q
}

// nearest returns the option with the fewest typing errors, two at most.
func (t Table) nearest(name string) string {
	return filch.Nearest(name, func(yield func(string) bool) {
		for o := range t.each {
			if !yield(o.Name) {
				return
			}
		}
	}, 3)
}
