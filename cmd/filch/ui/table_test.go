package ui

import (
	"testing"
)

func TestTableKeepsOneLinePerRow(t *testing.T) {
	tab := &Table{Head: []string{"ID", "NAME"}, Right: map[int]bool{0: true}}
	tab.Add("7", "a\nb")
	tab.Add("12345", "größe")
	want := "   ID  NAME\n    7  a\\nb\n12345  größe\n"
	if got := tab.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Colors are for rows that ended badly, and only where asked for.
func TestTableMarksRowsForATerminal(t *testing.T) {
	tab := &Table{Head: []string{"ID", "STATE"}}
	tab.Add("7", "ok")
	tab.Add("8", "failed")
	tab.Alert()
	if got, want := tab.whole(true), "ID  STATE\n7   ok\n\x1b[31m8   failed\x1b[0m\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := tab.String(), "ID  STATE\n7   ok\n8   failed\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
