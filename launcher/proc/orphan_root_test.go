//go:build root

package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/filch-hpc/filch/launcher/proc"
)

// nobody may make no cgroup: the sweeps find its processes by their mark.
const nobody = 65534

// lend gives another user the state folder dir and a copy of the program in it.
func lend(t *testing.T, program, dir string, to int) string {
	t.Helper()
	b, err := os.ReadFile(program)
	if err == nil {
		syscall.ForkLock.RLock() // a child of another test would hold it open for writing
		err = os.WriteFile(dir+"/poser", b, 0o755)
		syscall.ForkLock.RUnlock()
	}
	for up := dir; err == nil && up != os.TempDir(); up = filepath.Dir(up) {
		err = os.Chmod(up, 0o755)
	}
	if err == nil {
		err = os.Chown(dir, to, to)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/poser"
}

// TestRootNobodySurvives runs the kill matrix with the cgroups of root, and as a user
// who may make none.
func TestRootNobodySurvives(t *testing.T) {
	for _, c := range kills {
		t.Run(c.name, func(t *testing.T) { c.survivors(t, nil) })
		t.Run(c.name+"-without-a-cgroup", func(t *testing.T) {
			c.survivors(t, func(cmd *exec.Cmd, at proc.Place) {
				cmd.Path, cmd.Dir = lend(t, cmd.Path, at.Dir, nobody), "/"
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			})
		})
	}
}
