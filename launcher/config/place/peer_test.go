package place

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// peerChild makes a test print what CheckPeer says of descriptor 3.
const peerChild = "FILCH_TEST_PEER"

func TestPeerOfThisUser(t *testing.T) {
	if os.Getenv(peerChild) != "" {
		if _, err := CheckPeer(3); err != nil {
			t.Log("refused:", err)
		} else {
			t.Log("served")
		}
		return
	}
	if out, err := askPeer(t, "TestPeerOfThisUser", nil); err != nil || !strings.Contains(out, "served") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

// askPeer runs a test of this package as a child, which checks the peer at the other end
// of a socket that this process holds.
func askPeer(t *testing.T, test string, as *syscall.SysProcAttr) (string, error) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	other := os.NewFile(uintptr(pair[0]), "other end")
	defer other.Close()
	ours := os.NewFile(uintptr(pair[1]), "this end")
	defer ours.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), peerChild+"=1")
	cmd.ExtraFiles = []*os.File{ours}
	cmd.SysProcAttr = as
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestPartialMap(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n":  false,
		"      1000       1000          1\n":  true,
		"         0     100000      65536\n":  true,
		"0 0 65534\n65534 65534 4294901761\n": false,
		"":                                    true,
		"         0       1000          1\n 1 100000      65536\n": true,
	} {
		if got := partialMap(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
