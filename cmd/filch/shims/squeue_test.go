package shims

import (
	"strings"
	"testing"
)

// TestSlurmsTablesAreClean prints a hostile job name with the shims' formats.
func TestSlurmsTablesAreClean(t *testing.T) {
	var j batchJob
	j.Name, j.page.Dir, j.page.Command = "a\n7\u202eb", "/d\x1b[2J", "/c\nJobId=8"
	const want = `a\n7\u202eb`
	if got := squeueLine("%i|%j", func(c byte) string { return j.squeueField(c, "7") }); got != "7|"+want {
		t.Errorf("squeue: got %q", got)
	}
	if got := j.scontrol(); !strings.Contains(got, "JobName="+want) || strings.ContainsAny(got, "\x1b\u202e") || strings.Contains(got, "\nJobId") {
		t.Errorf("scontrol: got %q", got)
	}
}
