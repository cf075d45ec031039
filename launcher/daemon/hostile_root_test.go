//go:build root

package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/filch-hpc/filch/launcher/watch"
)

func TestRootAnotherUserIsRefused(t *testing.T) {
	r := start(t, testConfig(t))
	// The directories keep others out; with them open, the socket does.
	for dir := r.cfg.Dir.Path(); dir != "/tmp"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(r.cfg.Dir.Socket(), 0o777); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "speak", r.cfg.Dir.Socket())
	cmd.Path = filepath.Join(t.TempDir(), "speak")
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // a child of another test would hold it open for writing
	err = os.WriteFile(cmd.Path, b, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(cmd.Path); dir != "/tmp"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "serves uid 0, not uid 65534") {
		t.Errorf("got %q, %v", out, err)
	}
	poll(t, "the refusal to be counted", func() bool { return r.in.Watch.Count(watch.ClientsRefused) == 1 })
}
