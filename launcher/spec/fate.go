package spec

import "strings"

// Fate is what the shim of a command does with an option of the command.
type Fate uint8

const (
	// Done: filch does what the command does.
	Done Fate = iota
	// Said: no result of the program depends on the option; the shim says that filch does
	// not do the option, and goes on.
	Said
	// Left: the shim says so, and starts the real command instead.
	Left
	// Refused: the shim refuses the call, and names the option.
	Refused
)

// String is the word of the documents for a fate.
func (f Fate) String() string {
	return [...]string{"done", "said", "left", "refused"}[f]
}

// Table has the options of one command.
type Table []Option

// rows makes options with one fate and one note from their names, separated by blanks:
// [SHORT,]NAME, with =VALUE for a value, or with [=VALUE] for a value that may be left
// out. An option without a set of its own changes nothing.
func rows(fate Fate, note, list string) Table {
	var t Table
	for word := range strings.FieldsSeq(list) {
		o := Option{Fate: fate, Note: note, Part: true, idle: true, set: func(*Run, string) error { return nil }}
		if len(word) > 1 && word[1] == ',' {
			o.Short, word = word[0], word[2:]
		}
		var valued bool
		if o.Name, o.Arg, valued = strings.Cut(word, "="); valued && strings.HasSuffix(o.Name, "[") {
			o.Name, o.Arg, o.Optional = o.Name[:len(o.Name)-1], strings.TrimSuffix(o.Arg, "]"), "-"
		}
		t = append(t, o)
	}
	return t
}

// Rows is rows for the tables of other packages: their commands act on the values that
// [Table.Scan] returns.
func Rows(fate Fate, note, list string) Table { return rows(fate, note, list) }

// same returns options of filch run, which have the same meaning in the table's command.
func same(note, list string) Table {
	var t Table
	for name := range strings.FieldsSeq(list) {
		o, ours := lookup(name)
		if !ours {
			panic("filch run has no option --" + name)
		}
		p := *o
		p.Note = note
		t = append(t, p)
	}
	return t
}

// join makes a table of its parts.
func join(parts ...Table) Table {
	var t Table
	for _, p := range parts {
		t = append(t, p...)
	}
	return t
}

// acts is a single option with an effect of its own.
func acts(note, word string, set func(*Run, string) error) Table {
	t := rows(Done, note, word)
	t[0].set, t[0].idle = set, false
	return t
}

// Label is the option as the documents write the option: -n, --ntasks=N.
func (o *Option) Label() string {
	var b strings.Builder
	if o.Short != 0 {
		b.WriteString("-" + string(rune(o.Short)))
		if o.Name != "" {
			b.WriteString(", ")
		}
	}
	if o.Name != "" {
		b.WriteString("--" + o.Name)
	}
	switch {
	case o.Arg == "":
	case o.Optional != "":
		b.WriteString("[=" + o.Arg + "]")
	default:
		b.WriteString("=" + o.Arg)
	}
	return b.String()
}

// Scan reads the options of a command line of another command, which may stand between the
// words, as getopt allows. A name may be cut to a prefix that fits no other option.
func (t Table) Scan(args []string, set func(*Option, string) error) (words []string, err error) {
	for len(args) > 0 {
		rest, err := t.scan(args, set)
		if err != nil {
			return nil, err
		}
		if len(rest) == 0 {
			return words, nil
		}
		if read := len(args) - len(rest); read > 0 && args[read-1] == "--" {
			return append(words, rest...), nil
		}
		words, args = append(words, rest[0]), rest[1:]
	}
	return words, nil
}

// meet notes an option that filch does not do.
func (r *Run) meet(o *Option) {
	switch o.Fate {
	case Left, Refused:
		r.Client.Foreign, r.Client.Instead = "--"+o.Name, o.Note
	case Said:
		r.Client.Said = append(r.Client.Said, "filch does not do --"+o.Name+": "+o.Note)
	}
}
