package cli

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/filch-hpc/filch"
)

// A wait that ends before its watch begins must not hang.
func TestLateInterruptEndsWithItsWait(t *testing.T) {
	for _, lasts := range []time.Duration{0, interruptLate - 1} {
		synctest.Test(t, func(*testing.T) {
			stop := SayOnLateInterrupt(func() []filch.JobID { return nil })
			time.Sleep(lasts) // of the bubble's clock
			stop()
		})
	}
}

// The test runs itself: the process waits for the interrupt that it sends to itself.
func TestLateInterruptSaysHowToComeBack(t *testing.T) {
	if os.Getenv("FILCH_TEST_INTERRUPT") != "" {
		defer SayOnLateInterrupt(func() []filch.JobID { return []filch.JobID{7} })()
		time.AfterFunc(5*interruptLate, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) })
		select {}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, "-test.run", "^"+t.Name()+"$")
	c.Env = append(os.Environ(), "FILCH_TEST_INTERRUPT=1")
	out, err := c.CombinedOutput()
	if code := c.ProcessState.ExitCode(); code != filch.ExitInterrupt || !strings.Contains(string(out), "filch: job 7 goes on") {
		t.Errorf("%v, want code %d and how to come back:\n%s", err, filch.ExitInterrupt, out)
	}
}
