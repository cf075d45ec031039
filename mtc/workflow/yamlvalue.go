package workflow

import (
	"strconv"
	"strings"
)

// inline reads the value that begins at a column of the line at hand, below
// the indent of its key: a scalar, or a list or map in brackets, which may go
// on over lines.
func (y *yamlText) inline(column, indent, depth int) (node, error) {
	n := node{line: y.at + 1}
	s := y.lines[y.at][column:]
	switch s[0] {
	case '[', '{':
		f := &flow{yamlText: y, rest: s}
		n, err := f.value(depth)
		if err != nil {
			return n, err
		}
		return n, y.ended(f.rest)
	case '"', '\'':
		if err := y.grow(n.line, depth); err != nil {
			return n, err
		}
		text, rest, err := y.quoted(s)
		if err != nil {
			return n, err
		}
		n.shape, n.text = shapeText, text
		return n, y.ended(rest)
	}
	if err := y.grow(n.line, depth); err != nil {
		return n, err
	}
	if k := strings.Index(s, " #"); k >= 0 {
		s = s[:k]
	}
	s = strings.TrimRight(s, " ")
	if err := y.plain(s); err != nil {
		return n, err
	}
	n.shape, n.text = resolve(s), s
	y.at++
	if y.next() && y.indent() > indent && !strings.HasPrefix(y.lines[y.at], "---") {
		return n, y.errorf("text that goes on over several lines needs | at its beginning")
	}
	return n, nil
}

// ended makes sure that nothing but a comment follows a value on its line.
func (y *yamlText) ended(rest string) error {
	trimmed := strings.TrimLeft(rest, " ")
	if trimmed != "" && (trimmed[0] != '#' || trimmed == rest) {
		return y.errorf("%s follows the end of a value", quote(trimmed))
	}
	y.at++
	return nil
}

// resolve says what a scalar without quotes is.
func resolve(s string) shape {
	switch s {
	case "~", "null", "Null", "NULL":
		return shapeNull
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return shapeBool
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return shapeNumber
	}
	return shapeText
}

// literal reads the text behind a |, line for line.
func (y *yamlText) literal(column, indent int) (node, error) {
	n := node{shape: shapeText, line: y.at + 1}
	head := y.lines[y.at][column+1:]
	if k := strings.Index(head, " #"); k >= 0 {
		head = head[:k]
	}
	chomp := strings.TrimRight(head, " ")
	if chomp != "" && chomp != "-" && chomp != "+" {
		return n, y.errorf("|%s is not part of it: |, |- and |+ are", clipName(chomp))
	}
	y.at++
	var text []string
	own := -1 // the indent of the text
	for ; y.at < len(y.lines); y.at++ {
		l := y.lines[y.at]
		trimmed := strings.TrimLeft(l, " ")
		if trimmed == "" {
			if own < 0 && l != "" || own >= 0 && len(l) > own {
				return n, y.errorf("a line of nothing but blanks in a text")
			}
			text = append(text, "")
			continue
		}
		at := len(l) - len(trimmed)
		if own < 0 {
			own = at
		}
		if at <= indent || at < own {
			break
		}
		if trimmed[0] == '\t' && at == own {
			return n, y.errorf("a line of a text that begins with a tab")
		}
		text = append(text, l[own:])
	}
	blank := 0
	for blank < len(text) && text[len(text)-1-blank] == "" {
		blank++
	}
	if len(text) == blank {
		return n, y.errorf("there is no text behind the |")
	}
	if y.at == len(y.lines) && blank > 0 && y.lines[len(y.lines)-1] == "" {
		blank-- // what follows the last newline is no line
		text = text[:len(text)-1]
	} else if y.at == len(y.lines) && blank == 0 && chomp != "-" {
		return n, y.src.errorf(len(y.lines), "the text ends without a newline")
	}
	n.text = strings.Join(text[:len(text)-blank], "\n")
	switch chomp {
	case "":
		n.text += "\n"
	case "+":
		n.text += "\n" + strings.Repeat("\n", blank)
	}
	return n, nil
}

// flow reads a value in brackets.
type flow struct {
	*yamlText
	rest string // of the line at hand
}

// skip goes to the next character that is no blank and no comment.
func (f *flow) skip() error {
	for begin := true; ; begin = false {
		trimmed := strings.TrimLeft(f.rest, " ")
		comment := strings.HasPrefix(trimmed, "#") && (!begin || trimmed != f.rest)
		if trimmed != "" && !comment {
			f.rest = trimmed
			return nil
		}
		f.at++
		if f.at >= len(f.lines) {
			return f.errorf("a bracket is not closed")
		}
		if f.rest = f.lines[f.at]; strings.HasPrefix(f.rest, "---") {
			return f.errorf("a bracket is not closed")
		}
		if strings.HasPrefix(f.rest, "#") {
			f.rest = ""
		}
	}
}

func (f *flow) value(depth int) (node, error) {
	n := node{line: f.at + 1}
	if err := f.grow(n.line, depth); err != nil {
		return n, err
	}
	var err error
	switch f.rest[0] {
	case '[':
		n.shape = shapeList
		err = f.entries(']', func() error {
			item, err := f.value(depth + 1)
			n.items = append(n.items, item)
			return err
		})
	case '{':
		n.shape = shapeMap
		seen := map[string]int{}
		err = f.entries('}', func() error { return f.entry(&n, seen, depth) })
	case '"', '\'':
		n.shape = shapeText
		n.text, f.rest, err = f.quoted(f.rest)
	default:
		n.text, err = f.word()
		n.shape = resolve(n.text)
	}
	return n, err
}

// entries reads what stands between brackets, separated by commas.
func (f *flow) entries(end byte, visit func() error) error {
	f.rest = f.rest[1:]
	for {
		if err := f.skip(); err != nil {
			return err
		}
		if f.rest[0] == end {
			f.rest = f.rest[1:]
			return nil
		}
		if err := visit(); err != nil {
			return err
		}
		if err := f.skip(); err != nil {
			return err
		}
		switch f.rest[0] {
		case ',':
			f.rest = f.rest[1:]
		case end:
		default:
			return f.errorf("a comma or %q is missing before %s", string(end), quote(f.rest))
		}
	}
}

// entry reads a key with its value.
func (f *flow) entry(n *node, seen map[string]int, depth int) error {
	line := f.at + 1
	var key string
	var err error
	wasQuoted := f.rest[0] == '"' || f.rest[0] == '\''
	if wasQuoted {
		key, f.rest, err = f.quoted(f.rest)
		f.rest = strings.TrimLeft(f.rest, " ")
	} else {
		key, err = f.word()
	}
	if err != nil {
		return err
	}
	if !strings.HasPrefix(f.rest, ":") || !wasQuoted && len(f.rest) > 1 && strings.IndexByte(" ", f.rest[1]) < 0 || key == "<<" {
		return f.errorf("%s has no colon with a blank behind it", quote(key))
	}
	f.rest = f.rest[1:]
	if err := f.skip(); err != nil {
		return err
	}
	return f.pair(n, seen, key, line, func() (node, error) {
		if f.rest[0] == ',' || f.rest[0] == '}' {
			return node{line: f.at + 1}, nil
		}
		return f.value(depth + 1)
	})
}

// word reads text without quotes, which ends at a comma, a bracket, a comment
// or a colon with a blank behind it.
func (f *flow) word() (string, error) {
	end := len(f.rest)
	for i := range len(f.rest) {
		c := f.rest[i]
		if strings.IndexByte(",[]{}", c) >= 0 || c == ':' && (i+1 == len(f.rest) || strings.IndexByte(" ,[]{}", f.rest[i+1]) >= 0) || c == '#' && i > 0 && f.rest[i-1] == ' ' {
			end = i
			break
		}
	}
	s := strings.TrimRight(f.rest[:end], " ")
	if err := f.plain(s); err != nil {
		return "", err
	}
	f.rest = f.rest[end:]
	return s, nil
}
