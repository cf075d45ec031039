package pmi

import (
	"errors"
	"strings"
)

// attr is a key=value of a message.
type attr struct{ key, val string }

// line is a parsed message of either protocol.
type line struct {
	cmd   string
	attrs []attr
}

// val is the first attribute with this name, "" when there is none.
func (l line) val(key string) string {
	v, _ := l.lookup(key)
	return v
}

func (l line) lookup(key string) (string, bool) {
	for _, a := range l.attrs {
		if a.key == key {
			return a.val, true
		}
	}
	return "", false
}

var (
	errNoCommand = errors.New("a line without a command")
	errBytes     = errors.New("a line with control bytes")
	errToken     = errors.New("a word that is not name=value")
	errAttrs     = errors.New("too many attributes")
	errWord      = errors.New("an attribute's name that is empty or too long")
)

// parseLine reads a line of PMI-1, without the newline. A value= or a message= goes on to
// the end of the line: Open MPI's encoding has spaces in values, and MPICH 4.2 in the
// message of an abort.
func parseLine(s string) (line, error) {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return line{}, errBytes
		}
	}
	var l line
	rest := strings.TrimLeft(s, " ")
	for rest != "" {
		key, after, ok := strings.Cut(rest, "=")
		if !ok || strings.Contains(key, " ") {
			if l.cmd == "" {
				return line{}, errNoCommand
			}
			return line{}, errToken
		}
		if key == "" || len(key) > maxWord {
			if l.cmd == "" {
				return line{}, errNoCommand
			}
			return line{}, errWord
		}
		val := after
		if key == "value" || key == "message" {
			rest = ""
		} else {
			val, rest, _ = strings.Cut(after, " ")
			rest = strings.TrimLeft(rest, " ")
		}
		if l.cmd == "" {
			if (key != "cmd" && key != "mcmd") || val == "" {
				return line{}, errNoCommand
			}
			l.cmd = val
			continue
		}
		if len(l.attrs) == maxAttrs {
			return line{}, errAttrs
		}
		l.attrs = append(l.attrs, attr{key, val})
	}
	if l.cmd == "" {
		return line{}, errNoCommand
	}
	return l, nil
}
