package ui

import (
	"strings"
	"testing"
)

func TestTameEscapesOutput(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\nand more\r\n": "plain\ttext\nand more\r\n",
		"größe ✓":                   "größe ✓",
		"\x1b]0;title\a":            `\x1b]0;title\a`,
		"50 %\r100 %\n":             "50 %\\r100 %\n",
		"bad\xff\xe2\x9c":           `bad\xff\xe2\x9c`,
		"c1\u009b31m":               `c1\u009b31m`,
		"end\r":                     `end\r`,
	} {
		for size := 1; size <= len(in); size++ { // in whatever pieces
			var got strings.Builder
			w := &sanitizer{to: &got}
			for at := 0; at < len(in); at += size {
				if n, err := w.Write([]byte(in[at:min(at+size, len(in))])); err != nil || n == 0 {
					t.Fatal(n, err)
				}
			}
			if err := Flush(w); err != nil {
				t.Fatal(err)
			}
			if got.String() != want {
				t.Errorf("%q in pieces of %d gives %q, want %q", in, size, got.String(), want)
			}
		}
	}
}
