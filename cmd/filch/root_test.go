package main

import (
	"strings"
	"testing"
)

func TestUnknownCommandsAndOptionsAreOneLine(t *testing.T) {
	for _, args := range [][]string{{"runn"}, {"ps", "--foo"}, {"info"}, {"up", "x"}, {"nodes", "x"}} {
		root := newRoot()
		root.SetArgs(args)
		err := root.Execute()
		if err == nil {
			t.Errorf("filch %v: no error", args)
			continue
		}
		if text := oneLine(err).Error(); strings.Contains(text, "\n") || text == "" {
			t.Errorf("filch %v: got %q, want one line", args, text)
		}
	}
}
