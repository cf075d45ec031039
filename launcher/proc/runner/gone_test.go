package runner

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/launcher"
)

// TestEndBesideALostLauncher shows that the output of a task which the runner killed, since
// its launcher was gone, names the launcher, and not the memory.
func TestEndBesideALostLauncher(t *testing.T) {
	for gone, want := range map[bool]string{true: "the launcher of the node is gone", false: "perhaps out of memory"} {
		e := launcher.TaskEnd{}
		one := &task{order: &taskOrder{runner: &runner{gone: gone}}}
		one.judge(&e, unix.WaitStatus(unix.SIGKILL))
		if e.Kind != launcher.CauseSignal || !strings.Contains(e.Text, want) {
			t.Errorf("launcher gone: %t: got %q, want %q", gone, e.Text, want)
		}
	}
}
