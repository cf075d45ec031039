package workflow

import (
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// Template is a command with places for values, in GNU parallel's notation:
//
//	{}    the value             {/}   without its folder
//	{.}   without its ending    {/.}  without both
//	{//}  its folder            {#}   the number of the task, from 1
//	{%}   the number of the task's slot on its node, from 1
//
// and {2}, {2.}, {-1/} and so on for the value of a source, counted from the last source
// if the number is below zero. Braces with other contents stay as they are, and so do a
// shell's ${1} and ${#}. A Template is
// plain data; [Template.Expand] expands a Template.
//
// If the command is a single argument of several words, a shell reads the command, with
// the values quoted; else words stay words, and no value needs quotes.
type Template struct {
	Words []string // empty: the value is the command
	Shell bool     // Words is a single text for a shell
}

// NewTemplate makes a template out of the words of a command. If feed is set and no word
// asks for a value, NewTemplate adds the values at the end, as parallel and xargs do.
func NewTemplate(words []string, sources int, feed bool) (Template, error) {
	t := Template{Words: words}
	if len(words) == 0 {
		return t, nil
	}
	if len(words) > WordsMax {
		return t, filch.Errorf(filch.Invalid, "the command has %d words, at most %d", len(words), WordsMax)
	}
	if len(words) == 1 {
		_, plain := plainWords(strings.NewReplacer("{", "", "}", "", "#", "").Replace(words[0]))
		t.Shell = !plain || strings.ContainsAny(words[0], " \t")
	}
	asks := false
	for _, w := range words {
		if strings.IndexByte(w, 0) >= 0 {
			return t, filch.Errorf(filch.Invalid, "the command holds a NUL byte")
		}
		if strings.Contains(w, "{=") && strings.Contains(w, "=}") {
			return t, filch.Errorf(filch.Invalid, "cannot replace %s: expressions in perl are GNU parallel's alone", quote(w))
		}
		for rest := w; rest != ""; {
			_, place, more, found := cutPlace(rest)
			if !found {
				break
			}
			asks, rest = true, more
			if n := place.source; n > sources || -n > sources {
				return t, filch.Errorf(filch.Invalid, "cannot replace {%d}: a task has %d of these values", n, sources).
					WithHint("--colsep splits a line into {1}, {2} ...; a second ::: has more values")
			}
		}
	}
	if feed && !asks {
		if t.Shell {
			t.Words = []string{words[0] + " {}"}
		} else {
			t.Words = append(append([]string{}, words...), "{}")
		}
	}
	return t, nil
}

// place is a replacement string.
type place struct {
	source int  // 0: all sources
	edit   edit // change of a value
}

type edit uint8

const (
	editNone         edit = iota
	editNoEnding          // .
	editBase              // /
	editFolder            // //
	editBaseNoEnding      // /.
	editNumber            // #
	editSlot              // %
)

// edits is a list rather than a map: every start of the client would fill a map, and most
// starts run no bag.
var edits = [...]string{editNone: "", editNoEnding: ".", editBase: "/", editFolder: "//", editBaseNoEnding: "/.", editNumber: "#", editSlot: "%"}

// cutPlace finds the first replacement string of s.
func cutPlace(s string) (before string, p place, after string, found bool) {
	for from := 0; ; {
		open := strings.IndexByte(s[from:], '{')
		if open < 0 {
			return s, place{}, "", false
		}
		open += from
		from = open + 1
		end := strings.IndexByte(s[open:min(len(s), open+8)], '}')
		if end < 0 {
			continue
		}
		if p, ok := readPlace(s[open+1 : open+end]); ok && !(open > 0 && s[open-1] == '$' && p.isShell()) {
			return s[:open], p, s[open+end+1:], true
		}
	}
}

// isShell reports whether a dollar sign before the place makes a parameter of a shell:
// ${1} or ${#}.
func (p place) isShell() bool { return p.source > 0 && p.edit == editNone || p.edit == editNumber }

func readPlace(s string) (place, bool) {
	digits := 0
	if strings.HasPrefix(s, "-") {
		digits = 1
	}
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	found := slices.Index(edits[:], s[digits:])
	if found < 0 {
		return place{}, false
	}
	e, ok := edit(found), true
	p := place{edit: e}
	if digits > 0 {
		n, err := strconv.Atoi(s[:digits])
		ok = ok && err == nil && n != 0 && e != editNumber && e != editSlot
		p.source = n
	}
	return p, ok
}

// HasPlaces reports whether a text holds replacement strings.
func HasPlaces(text string) bool {
	_, _, _, found := cutPlace(text)
	return found
}

// Fill fills in the replacement strings of a text other than a command: a file name. {%}
// stays as it is.
func (t Template) Fill(text string, values []string, number int64) (string, error) {
	return t.fill(text, values, number, 0)
}

// UsesSlot reports whether the command depends on its slot.
func (t Template) UsesSlot() bool {
	for _, w := range t.Words {
		for found := true; found; {
			var p place
			if _, p, w, found = cutPlace(w); found && p.edit == editSlot {
				return true
			}
		}
	}
	return false
}

// Expand is the command of the task with these values, one for each source. Number and
// slot count from 1; slot is 0 if unknown yet, which leaves {%} as it is.
func (t Template) Expand(values []string, number int64, slot int) ([]string, error) {
	if len(t.Words) == 0 {
		line := strings.Join(values, " ")
		if strings.TrimSpace(line) == "" {
			return nil, filch.Errorf(filch.Invalid, "task %d has an empty command", number)
		}
		return ShellArgv(line), nil
	}
	argv := make([]string, 0, len(t.Words)+len(values)+2)
	for _, w := range t.Words {
		if w == "{}" && !t.Shell {
			argv = append(argv, values...)
			continue
		}
		text, err := t.fill(w, values, number, slot)
		if err != nil {
			return nil, err
		}
		argv = append(argv, text)
	}
	if t.Shell {
		argv = ShellArgv(argv[0])
	}
	size := 0
	for _, a := range argv {
		size += len(a) + 1
	}
	if size > TextMax {
		return nil, filch.Errorf(filch.Invalid, "the command of task %d has %d bytes, at most %d", number, size, TextMax)
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, filch.Errorf(filch.Invalid, "task %d has an empty command", number)
	}
	return argv, nil
}

func (t Template) fill(word string, values []string, number int64, slot int) (string, error) {
	before, p, after, found := cutPlace(word)
	if !found {
		return word, nil
	}
	var b strings.Builder
	for ; found; before, p, after, found = cutPlace(after) {
		b.WriteString(before)
		switch {
		case p.edit == editNumber:
			b.WriteString(strconv.FormatInt(number, 10))
		case p.edit == editSlot && slot == 0:
			b.WriteString("{%}")
		case p.edit == editSlot:
			b.WriteString(strconv.Itoa(slot))
		case p.source == 0:
			for i, v := range values {
				if i > 0 {
					b.WriteByte(' ')
				}
				t.write(&b, p.edit.apply(v))
			}
		default:
			i := p.source - 1
			if p.source < 0 {
				i = len(values) + p.source
			}
			if i < 0 || i >= len(values) {
				return "", filch.Errorf(filch.Invalid, "cannot replace {%d}: task %d has %s", p.source, number, filch.Plural(len(values), "value"))
			}
			t.write(&b, p.edit.apply(values[i]))
		}
		if b.Len() > TextMax {
			return "", filch.Errorf(filch.Invalid, "the command of task %d has more than %d bytes", number, TextMax)
		}
	}
	b.WriteString(before)
	return b.String(), nil
}

func (t Template) write(b *strings.Builder, value string) {
	if t.Shell {
		value = Quote(value)
	}
	b.WriteString(value)
}

// apply edits a value as GNU parallel does.
func (e edit) apply(v string) string {
	switch e {
	case editNoEnding:
		return noEnding(v)
	case editBase:
		return v[strings.LastIndexByte(v, '/')+1:]
	case editBaseNoEnding:
		return noEnding(v[strings.LastIndexByte(v, '/')+1:])
	case editFolder:
		return folder(v)
	}
	return v
}

func noEnding(v string) string {
	dot := strings.LastIndexByte(v, '.')
	if dot < 0 || strings.IndexByte(v[dot:], '/') >= 0 {
		return v
	}
	return v[:dot]
}

// folder is dirname(1).
func folder(v string) string {
	trimmed := strings.TrimRight(v, "/")
	if trimmed == "" && v != "" {
		return "/"
	}
	slash := strings.LastIndexByte(trimmed, '/')
	if slash < 0 {
		return "."
	}
	if trimmed = strings.TrimRight(trimmed[:slash], "/"); trimmed == "" {
		return "/"
	}
	return trimmed
}
