package children

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A process of the launcher that is no keeper is no orphan: its end is left to the caller. After
// that, a process is an orphan.
func TestOtherProcessesAreNoOrphans(t *testing.T) {
	ks := &Keepers{own: children{known: map[int]bool{}}}
	cmd := exec.Command("sh", "-c", "read x; exit 7")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended, err := ks.Other(cmd)
	if err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if alive := ks.own.orphans(); len(alive) > 0 {
		t.Errorf("orphans while %d runs: %v", pid, alive)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the process has not ended: %s", stat)
		}
	}
	ks.own.orphans()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the exit code went to another: %v, %v", err, cmd.ProcessState)
	}
	if ended(); len(ks.own.known) > 0 {
		t.Errorf("%v are still known", ks.own.known)
	}
	if _, err := ks.Other(exec.Command("/nowhere")); err == nil || len(ks.own.known) > 0 {
		t.Errorf("a command that cannot start: %v, %v", err, ks.own.known)
	}
}
