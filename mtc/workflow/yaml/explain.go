package yaml

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits on reading a text again to find the line of a mistake.
const (
	againMax = 1 << 20 // bytes of a text
	backMax  = 16      // lines to go back
)

// plainer replaces messages of the library for common mistakes. The first entry
// whose left side is part of the message is taken.
var plainer = []struct{ of, text string }{
	{"did not find expected key", "this line is not indented like those before it, or something follows the end of a value"},
	{"did not find expected '-' indicator", "a key among the items of a list, or a line that is not indented like those before it"},
	{"block sequence entries are not allowed", "an item of a list where none can stand"},
	{"did not find expected ',' or", "a bracket is not closed, or a comma is missing"},
	{"mapping values are not allowed", "a colon where none can stand: text with a colon and a blank needs quotes"},
	{"could not find expected ':'", "a key with a colon and a blank behind it is missing"},
	{"cannot start any token", "it begins with a tab, or with a character that needs quotes"},
	{"found a tab", "a tab: indent by blanks"},
	{"found unexpected end of stream", "the quotes are not closed"},
	{"found unexpected document indicator", "the quotes are not closed"},
	{"found unknown escape character", "what follows a \\ is not part of it"},
	{"exceeded max depth", "values are nested too deep"},
	{"unknown anchor", "anchors, aliases and tags (& * !) are not part of it"},
	{"undefined tag handle", "anchors, aliases and tags (& * !) are not part of it"},
}

// explain returns the line and the text of a mistake for which the library refused
// a text. The library counts lines from 0 in errors of the parser and from 1 in
// errors of the scanner, omits the first line, and names the beginning of the map or
// list around the mistake.
func explain(text []byte, err error) (int, error) {
	line, why := lineOf(err.Error())
	line = max(line, 1)
	switch {
	case strings.Contains(why, "expected ',' or"):
		line = unclosed(text, line)
	case strings.HasPrefix(why, "did not find"), strings.HasPrefix(why, "unknown anchor"), strings.Contains(why, "tag handle"):
		line = broken(text)
	}
	for _, p := range plainer {
		if strings.Contains(why, p.of) {
			return line, form("%s", p.text)
		}
	}
	return line, form("%s", why)
}

// unclosed is the line of a bracket that is not closed. The library names the line
// before the bracket, and any line for a bracket on the first line.
func unclosed(text []byte, said int) int {
	if len(text) <= againMax && parses(text, said) {
		return said + 1
	}
	return 1
}

// broken is the line after the longest beginning of the text that is valid YAML.
// The library stops a little behind that line, since the scanner reads ahead.
func broken(text []byte) int {
	last := stop(text)
	if len(text) > againMax {
		return last
	}
	for line := last; line > max(0, last-backMax); line-- {
		if parses(text, line-1) {
			return line
		}
	}
	return last
}

// stop is the line where the library stops reading.
func stop(text []byte) int {
	s := &slow{text: text}
	var n yaml.Node
	dec := yaml.NewDecoder(s)
	for dec.Decode(&n) == nil {
		n = yaml.Node{}
	}
	return 1 + bytes.Count(text[:max(0, s.read-1)], []byte("\n"))
}

// parses reports whether the first lines of text are YAML, or nothing.
func parses(text []byte, lines int) bool {
	end := 0
	for range lines {
		n := bytes.IndexByte(text[end:], '\n')
		if n < 0 {
			return false
		}
		end += n + 1
	}
	dec := yaml.NewDecoder(bytes.NewReader(text[:end]))
	for {
		var n yaml.Node
		if err := dec.Decode(&n); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// slow gives one byte at a time and counts the bytes that the library needed.
type slow struct {
	text []byte
	read int
}

func (s *slow) Read(p []byte) (int, error) {
	if s.read == len(s.text) || len(p) == 0 {
		return 0, io.EOF
	}
	p[0] = s.text[s.read]
	s.read++
	return 1, nil
}
