package main

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch/cmd/filch/logs"
)

func TestExportNames(t *testing.T) {
	names := []string{"fit", "a,b", "../up", ".hidden", "-rf", "7", "a b", "v1.2_x+y-z", "größe", "", strings.Repeat("x", 200), strings.Repeat("x", 201)}
	target := &logs.Target{Names: names}
	for i, want := range []string{"fit", "1", "2", "3", "4", "5", "6", "v1.2_x+y-z", "8", "9", names[10], "11", "12"} {
		if got := exportName(target, int32(i)); got != want {
			t.Errorf("task %d: got %q, want %q", i, got, want)
		}
	}
}
