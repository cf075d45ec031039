package ui

import (
	"io"
	"os"
	"unicode/utf8"
)

// sanitizer makes the output of programs safe for a terminal: a control character
// is written as an escape, but tabs and the ends of lines. Bytes of an incomplete
// character wait for the rest.
type sanitizer struct {
	to   io.Writer
	rest []byte
}

// Sanitized is f, or a sanitizer in front of f if f is a terminal. A user who
// wants the colors sends the output through a pipe.
func Sanitized(f *os.File) io.Writer {
	if IsTerminal(f) {
		return &sanitizer{to: f}
	}
	return f
}

func (t *sanitizer) Write(b []byte) (int, error) {
	in := append(t.rest, b...)
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		if in[0] == '\r' && len(in) == 1 || !utf8.FullRune(in) {
			break
		}
		_, n := utf8.DecodeRune(in)
		if in[0] == '\r' && in[1] == '\n' {
			n = 2
		}
		switch s := string(in[:n]); s {
		case "\n", "\t", "\r\n":
			out = append(out, s...)
		default:
			out = append(out, Clean(s)...)
		}
		in = in[n:]
	}
	t.rest = append([]byte(nil), in...)
	_, err := t.to.Write(out)
	return len(b), err
}

// Flush writes the bytes of a character that stayed incomplete.
func Flush(w io.Writer) error {
	t, ok := w.(*sanitizer)
	if !ok || len(t.rest) == 0 {
		return nil
	}
	s := Clean(string(t.rest))
	t.rest = nil
	_, err := io.WriteString(t.to, s)
	return err
}
