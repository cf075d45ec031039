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
	host := os.Getuid()
	if host == 0 {
		host = 1 // so that the other end, root, is unknown in there
	}
	for name, c := range map[string]struct {
		inside int // uid in a user namespace of its own; 0: no such namespace
		want   string
	}{
		"same-user":                      {want: "served"},
		"the-uid-of-all-that-is-unknown": {inside: int(overflowUID()), want: "refused: uid 65534 stands for all users"},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			other := os.NewFile(uintptr(pair[0]), "other end")
			defer other.Close()
			ours := os.NewFile(uintptr(pair[1]), "this end")
			defer ours.Close()
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestPeerOfThisUser$", "-test.v")
			cmd.Env = append(os.Environ(), peerChild+"=1")
			cmd.ExtraFiles = []*os.File{ours}
			if c.inside != 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{
					Cloneflags:  unix.CLONE_NEWUSER,
					UidMappings: []syscall.SysProcIDMap{{ContainerID: c.inside, HostID: host, Size: 1}},
					Credential:  &syscall.Credential{Uid: uint32(c.inside), NoSetGroups: true},
				}
				if os.Getuid() == 0 {
					cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
				} else {
					cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
				}
			}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("got %v, want %q:\n%s", err, c.want, out)
			}
		})
	}
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
