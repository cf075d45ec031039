package proc

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestExiting(t *testing.T) {
	if IsExiting(os.Getpid()) {
		t.Error("this process is said to be on its way out")
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	for end := time.Now().Add(10 * time.Second); !IsExiting(cmd.Process.Pid); {
		if time.Now().After(end) {
			t.Fatal("a process that has ended is not said to be on its way out")
		}
	}
}
