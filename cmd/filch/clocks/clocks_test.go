package clocks

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

func TestClocks(t *testing.T) {
	cs := Clocks{"near": {ahead: 5, wrong: 10}, "ahead": {ahead: 1000, wrong: 10}, "behind": {ahead: -1000, wrong: 10}}
	for node, want := range map[filch.NodeName]int64{"near": 5000, "ahead": 4000, "behind": 6000, "unknown": 5000} {
		if got := cs.Correct(node, 5000); got != want {
			t.Errorf("%s: got %d, want %d", node, got, want)
		}
	}
	if text := cs.String(); !strings.Contains(text, "the largest difference") || !strings.Contains(text, "3 nodes") {
		t.Errorf("got %s", text)
	}
	if text := (Clocks{}).String(); !strings.Contains(text, "not known") {
		t.Errorf("got %s", text)
	}
}
