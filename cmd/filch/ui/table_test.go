package ui

import (
	"testing"
	"time"
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

func TestShortTime(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 15 * time.Millisecond: "0.015s", 250 * time.Millisecond: "0.25s", 3200 * time.Millisecond: "3.2s",
		41 * time.Second: "41s", 131 * time.Second: "2m11s", 3*time.Hour + 5*time.Minute: "3h05m", 52 * time.Hour: "2d4h",
	} {
		if got := ShortTime(d); got != want {
			t.Errorf("shortTime(%v) = %q, want %q", d, got, want)
		}
	}
}
