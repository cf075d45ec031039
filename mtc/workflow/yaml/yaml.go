package yaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of a text, checked before the library parses the text.
const (
	TextMax  = 64 << 20 // bytes: as many as a workflow file of filch's own form may have
	MarksMax = 8 << 20  // of marks that can begin a value: the library takes some 220 bytes for each, 1.8 GB in all
)

// JSON returns text, one YAML document, as JSON: an object for a map, with all keys
// in the order of the text, duplicates included; an array for a list; a scalar as
// written, as a string where JSON has no literal of the same spelling. Values keep
// the lines of the YAML. An error belongs to a line; line 0 is the whole text.
func JSON(text []byte) (asJSON []byte, line int, err error) {
	text = bytes.TrimSuffix(text, []byte("\r")) // half a line end
	if line, err := check(text); err != nil {
		return nil, line, err
	}
	root, line, err := parse(text)
	if err != nil {
		return nil, line, err
	}
	w := &writer{line: 1}
	if err := w.value(root); err != nil {
		return nil, w.at, err
	}
	return append(w.out, '\n'), 0, nil
}

// check refuses a text beyond the limits, and bytes for which the library would
// return an error without a line.
func check(text []byte) (line int, err error) {
	if len(text) > TextMax {
		return 0, fmt.Errorf("it has more than %d MiB", TextMax>>20)
	}
	marks, line := 0, 0
	for l := range bytes.Lines(text) {
		line++
		marks += 1 + marksOf(l)
		if marks > MarksMax {
			return line, fmt.Errorf("too many values: it has more than %d marks like colons and commas", MarksMax)
		}
		if !utf8.Valid(l) {
			return line, errors.New("this is no UTF-8")
		}
		if whole, ended := bytes.CutSuffix(l, []byte("\n")); ended {
			l = bytes.TrimSuffix(whole, []byte("\r"))
		}
		if bytes.ContainsFunc(l, forbidden) {
			return line, errors.New("there is a control character in it")
		}
	}
	return 0, nil
}

// marksOf counts the marks within a line that can begin a value.
func marksOf(l []byte) int {
	n := 0
	for i, c := range l {
		switch c {
		case ':', ',', '[', '{':
			n++
		case '-', '?':
			if i+1 < len(l) && (l[i+1] == ' ' || l[i+1] == '\t') {
				n++
			}
		}
	}
	return n
}

// forbidden reports whether YAML forbids r, or counts r as the end of a line where
// editors show no end.
func forbidden(r rune) bool {
	switch r {
	case '\t':
		return false
	case '\ufeff', '\ufffe', '\uffff', '\u2028', '\u2029':
		return true
	}
	return unicode.IsControl(r)
}

// parse returns the root of the only document.
func parse(text []byte) (root *yaml.Node, line int, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err = dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF) || err == nil && isEmpty(&doc):
		return nil, 0, errors.New("it is empty")
	case err != nil:
		line, err = explain(text, err)
		return nil, line, err
	}
	err = dec.Decode(&more)
	switch {
	case err == nil:
		return nil, more.Line, errors.New("a second document: a file holds one workflow")
	case !errors.Is(err, io.EOF):
		line, err = explain(text, err)
		return nil, line, err
	}
	return doc.Content[0], 0, nil
}

// isEmpty reports whether a document holds nothing.
func isEmpty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" && doc.Content[0].Value == ""
}

// writer writes JSON line by line.
type writer struct {
	out  []byte
	line int // of the next byte of out
	at   int // of the value at hand
}

// goTo writes newlines up to a line, or nothing when out is past that line.
func (w *writer) goTo(line int) {
	for ; w.line < line; w.line++ {
		w.out = append(w.out, '\n')
	}
}

func (w *writer) value(n *yaml.Node) error {
	w.at = n.Line
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return errReferences
	}
	w.goTo(n.Line)
	switch n.Kind {
	case yaml.SequenceNode:
		w.out = append(w.out, '[')
		for i, item := range n.Content {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			if err := w.value(item); err != nil {
				return err
			}
		}
		w.out = append(w.out, ']')
	case yaml.MappingNode:
		w.out = append(w.out, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			if err := w.key(n.Content[i]); err != nil {
				return err
			}
			w.out = append(w.out, ':')
			if err := w.value(n.Content[i+1]); err != nil {
				return err
			}
		}
		w.out = append(w.out, '}')
	default:
		w.scalar(n)
	}
	return nil
}

func (w *writer) key(n *yaml.Node) error {
	w.at = n.Line
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0:
		return errReferences
	case n.Kind != yaml.ScalarNode:
		return form("a list or a map cannot be a key")
	case n.ShortTag() == "!!merge":
		return form("\"<<\" cannot be a key")
	}
	w.goTo(n.Line)
	w.text(n.Value)
	return nil
}

// scalar writes null, true, false and the numbers of JSON as such, all else as
// text. A scalar in quotes is text.
func (w *writer) scalar(n *yaml.Node) {
	switch tag := n.ShortTag(); {
	case tag == "!!null":
		w.out = append(w.out, "null"...)
	case tag == "!!bool" && (n.Value == "true" || n.Value == "false"), (tag == "!!int" || tag == "!!float") && isNumber(n.Value):
		w.out = append(w.out, n.Value...)
	default:
		w.text(n.Value)
	}
}

// isNumber reports whether s is a number of JSON.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole := countDigits(s)
	if whole == 0 || whole > 1 && s[0] == '0' {
		return false
	}
	s = s[whole:]
	if rest, found := strings.CutPrefix(s, "."); found {
		n := countDigits(rest)
		if n == 0 {
			return false
		}
		s = rest[n:]
	}
	if s == "" {
		return true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return false
	}
	s = s[1:]
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return s != "" && countDigits(s) == len(s)
}

func countDigits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// text writes a string on one line.
func (w *writer) text(s string) {
	const hex = "0123456789abcdef"
	w.out = append(w.out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			w.out = append(w.out, '\\', c)
		case c < ' ':
			w.out = append(w.out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			w.out = append(w.out, c)
		}
	}
	w.out = append(w.out, '"')
}

// form is an error about YAML that a workflow file must not use, or that is malformed.
func form(format string, args ...any) error {
	return fmt.Errorf("this is no YAML of this form: "+format, args...)
}

var errReferences = form("anchors, aliases and tags (& * !) are not part of it")

// lineOf takes the line off a message of the library; 0 when the message has none.
func lineOf(message string) (line int, text string) {
	message = strings.TrimPrefix(message, "yaml: ")
	if after, found := strings.CutPrefix(message, "line "); found {
		if number, text, found := strings.Cut(after, ": "); found {
			if n, err := strconv.Atoi(number); err == nil {
				return n, text
			}
		}
	}
	return 0, message
}
