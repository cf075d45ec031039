package main

import (
	"io"
	"os"
	"unicode/utf8"
)

// tame makes what programs printed safe for a terminal: a control character is
// written as an escape, but tabs and the ends of lines. Bytes of a character
// that is not whole yet wait for the rest.
type tame struct {
	to   io.Writer
	rest []byte
}

// tamed is f, or where that is a terminal what makes it safe. Whoever wants the
// colors sends it through a pipe.
func tamed(f *os.File) io.Writer {
	if isTerminal(f) {
		return &tame{to: f}
	}
	return f
}

func (t *tame) Write(b []byte) (int, error) {
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
			out = append(out, clean(s)...)
		}
		in = in[n:]
	}
	t.rest = append([]byte(nil), in...)
	_, err := t.to.Write(out)
	return len(b), err
}

// flush writes what never became whole.
func flush(w io.Writer) error {
	t, ok := w.(*tame)
	if !ok || len(t.rest) == 0 {
		return nil
	}
	s := clean(string(t.rest))
	t.rest = nil
	_, err := io.WriteString(t.to, s)
	return err
}
