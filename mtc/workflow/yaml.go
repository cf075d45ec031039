package workflow

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// The part of YAML that this form needs, read here: a library for all of YAML
// takes 0.2 ms of every start of the client, most of which never see a
// workflow. What is read here is read as YAML 1.2 means it (a fuzz test holds
// it against a full reader); what is not is refused with its line: anchors,
// aliases, tags, folded text, text over several lines, complex keys.

// yamlText walks a YAML text line by line.
type yamlText struct {
	*tree
	lines []string
	at    int // the line to be read, from 0
}

// yaml reads the only document of a YAML text.
func (t *tree) yaml(text []byte) (node, error) {
	y := &yamlText{tree: t, lines: strings.Split(string(text), "\n")}
	for i, l := range y.lines {
		l = strings.TrimSuffix(l, "\r")
		y.lines[i] = l
		if !utf8.ValidString(l) {
			return node{}, t.src.errorf(i+1, "this is no UTF-8")
		}
		if k := strings.IndexFunc(l, func(r rune) bool { return r != '\t' && isControl(r) || r == '\ufeff' || r == '\ufffe' || r == '\uffff' }); k >= 0 {
			return node{}, t.src.errorf(i+1, "there is a control character in it")
		}
		if strings.HasPrefix(l, "...") || strings.HasPrefix(l, "%") {
			return node{}, t.src.errorf(i+1, "directives and ends of documents are not part of this form")
		}
	}
	if y.next() && y.lines[y.at] == "---" {
		y.at++
	}
	if !y.next() {
		return node{}, t.src.errorf(0, "it is empty")
	}
	n, err := y.block(0, 0)
	if err != nil {
		return node{}, err
	}
	if y.next() {
		if strings.HasPrefix(y.lines[y.at], "---") {
			return node{}, t.src.errorf(y.at+1, "a second document: a file holds one workflow")
		}
		return node{}, y.errorf("this line is not indented like those before it")
	}
	return n, nil
}

func (y *yamlText) errorf(format string, args ...any) error {
	return y.src.errorf(min(y.at, len(y.lines)-1)+1, "this is no YAML of this form: "+format, args...)
}

// next goes to the next line that holds something; false at the end.
func (y *yamlText) next() bool {
	for ; y.at < len(y.lines); y.at++ {
		l := strings.TrimLeft(y.lines[y.at], " ")
		if l != "" && l[0] != '#' {
			return true
		}
	}
	return false
}

// indent is that of the line at hand.
func (y *yamlText) indent() int {
	l := y.lines[y.at]
	return len(l) - len(strings.TrimLeft(l, " "))
}

func isItem(s string) bool { return s == "-" || strings.HasPrefix(s, "- ") }

// block reads the map, list or scalar that begins at the line at hand, which
// is indented by least at least.
func (y *yamlText) block(least, depth int) (node, error) {
	indent := y.indent()
	n := node{line: y.at + 1}
	if err := y.grow(n.line, depth); err != nil {
		return n, err
	}
	content := y.lines[y.at][indent:]
	switch {
	case indent < least:
		return n, y.errorf("this line is indented by %d, should be by %d at least", indent, least)
	case strings.HasPrefix(y.lines[y.at], "---"):
		return n, y.src.errorf(n.line, "a second document: a file holds one workflow")
	case isItem(content):
		return n, y.list(&n, indent, depth)
	}
	if _, _, isKey, err := y.key(content); err != nil {
		return n, err
	} else if isKey {
		return n, y.mapping(&n, indent, depth)
	}
	return y.inline(indent, indent-1, depth)
}

// list reads the items of a list whose dashes stand at indent.
func (y *yamlText) list(n *node, indent, depth int) error {
	n.shape = shapeList
	for y.next() && y.indent() == indent && isItem(y.lines[y.at][indent:]) {
		rest := y.lines[y.at][indent+1:]
		trimmed := strings.TrimLeft(rest, " ")
		var item node
		var err error
		if trimmed == "" || trimmed[0] == '#' {
			item, err = y.below(indent, depth, false)
		} else {
			// What follows the dash is a block of its own, at its column.
			column := indent + 1 + len(rest) - len(trimmed)
			y.lines[y.at] = strings.Repeat(" ", column) + trimmed
			item, err = y.item(indent, column, depth)
		}
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	return y.dedented(indent + 1) // a list may stand at the indent of its key
}

// item is what follows a dash on its line.
func (y *yamlText) item(indent, column, depth int) (node, error) {
	if c := y.lines[y.at][column]; c == '|' {
		if err := y.grow(y.at+1, depth+1); err != nil {
			return node{}, err
		}
		return y.literal(column, indent)
	}
	return y.block(column, depth+1)
}

// dedented makes sure that what follows a block belongs to one outside of it.
func (y *yamlText) dedented(indent int) error {
	if y.next() && y.indent() >= indent && !strings.HasPrefix(y.lines[y.at], "---") {
		return y.errorf("this line is not indented like those before it")
	}
	return nil
}

// below is the value that stands in the lines below its key or dash, or null.
func (y *yamlText) below(indent, depth int, ofKey bool) (node, error) {
	line := y.at + 1
	y.at++
	if y.next() && !strings.HasPrefix(y.lines[y.at], "---") {
		deeper := y.indent() > indent
		if deeper || ofKey && y.indent() == indent && isItem(y.lines[y.at][indent:]) {
			return y.block(min(indent+1, y.indent()), depth+1)
		}
	}
	return node{line: line}, y.grow(line, depth+1)
}

// mapping reads the pairs of a map whose keys stand at indent.
func (y *yamlText) mapping(n *node, indent, depth int) error {
	n.shape = shapeMap
	seen := map[string]int{}
	for y.next() && y.indent() == indent && !strings.HasPrefix(y.lines[y.at], "---") {
		content := y.lines[y.at][indent:]
		if isItem(content) {
			return y.errorf("an item of a list among the keys of a map")
		}
		key, rest, isKey, err := y.key(content)
		if err != nil {
			return err
		}
		if !isKey {
			return y.errorf("a key with a colon and a blank behind it is missing")
		}
		err = y.pair(n, seen, key, y.at+1, func() (node, error) {
			trimmed := strings.TrimLeft(rest, " ")
			column := len(y.lines[y.at]) - len(trimmed)
			switch {
			case trimmed == "" || trimmed[0] == '#':
				return y.below(indent, depth, true)
			case trimmed[0] == '|':
				if err := y.grow(y.at+1, depth+1); err != nil {
					return node{}, err
				}
				return y.literal(column, indent)
			}
			return y.inline(column, indent, depth+1)
		})
		if err != nil {
			return err
		}
	}
	return y.dedented(indent)
}

// key cuts the key off a line; isKey is false for a line without one.
func (y *yamlText) key(s string) (key, rest string, isKey bool, err error) {
	const keyMax = 1000 // YAML's own limit is 1,024
	switch s[0] {
	case '"', '\'':
		text, after, err := y.quoted(s)
		if err != nil {
			return "", "", false, err
		}
		after = strings.TrimLeft(after, " ")
		if !strings.HasPrefix(after, ":") {
			return "", "", false, nil
		}
		key, rest = text, after[1:]
		if rest != "" && rest[0] != ' ' {
			return "", "", false, y.errorf("a blank is missing behind the colon")
		}
	case '[', '{':
		return "", "", false, nil
	default:
		end := len(s)
		if k := strings.Index(s, " #"); k >= 0 {
			end = k
		}
		colon := strings.Index(s[:end], ": ")
		if colon < 0 && strings.HasSuffix(s[:end], ":") {
			colon = end - 1
		}
		if colon < 0 {
			return "", "", false, nil
		}
		key, rest = strings.TrimRight(s[:colon], " "), s[colon+1:]
		if err := y.plain(key); err != nil {
			return "", "", false, err
		}
	}
	if key == "<<" || len(s)-len(rest) > keyMax {
		return "", "", false, y.errorf("%s cannot be a key", quote(key))
	}
	return key, rest, true, nil
}

// plain refuses text without quotes that YAML would not take for text.
func (y *yamlText) plain(s string) error {
	switch {
	case s == "":
		return y.errorf("something is missing here")
	case strings.IndexByte("&*!", s[0]) >= 0:
		return y.errorf("anchors, aliases and tags (& * !) are not part of it")
	case s[0] == '>':
		return y.errorf("folded text (>) is not part of it: use |")
	case strings.IndexByte(",[]{}#|'\"%@`?:", s[0]) >= 0, isItem(s):
		return y.errorf("%s needs quotes", quote(s))
	case strings.IndexByte(s, '\t') >= 0:
		return y.errorf("a tab: indent and separate by blanks, or use quotes")
	case strings.Contains(s, ": ") || s[len(s)-1] == ':' || strings.Contains(s, " #"):
		return y.errorf("a colon or a # in %s: it needs quotes", quote(s))
	}
	return nil
}

// quoted reads a text in quotes, which ends on its line.
func (y *yamlText) quoted(s string) (text, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0] && c == '\'' && strings.HasPrefix(s[i+1:], "'"):
			b.WriteByte('\'')
			i++
		case c == s[0]:
			return b.String(), s[i+1:], nil
		case c == '\\' && s[0] == '"':
			n, err := y.escape(&b, s[i+1:])
			if err != nil {
				return "", "", err
			}
			i += n
		default:
			b.WriteByte(c)
		}
	}
	return "", "", y.errorf("the quotes are not closed on this line")
}

// escape reads what follows a backslash.
func (y *yamlText) escape(b *strings.Builder, s string) (taken int, err error) {
	if s == "" {
		return 0, y.errorf("a text in quotes that goes on in the next line")
	}
	const plain, meant = `0abtnvfre "/\`, "\x00\a\b\t\n\v\f\r\x1b \"/\\"
	if k := strings.IndexByte(plain, s[0]); k >= 0 {
		b.WriteByte(meant[k])
		return 1, nil
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if digits == 0 || len(s) <= digits {
		return 0, y.errorf("\\%c is not part of it", s[0])
	}
	r, err := strconv.ParseUint(s[1:1+digits], 16, 32)
	if err != nil || !utf8.ValidRune(rune(r)) {
		return 0, y.errorf("\\%s is no character", s[:1+digits])
	}
	b.WriteRune(rune(r))
	return 1 + digits, nil
}
