//go:build root

package place

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRootPrivateRefusesAnotherUser(t *testing.T) {
	theirs := filepath.Join(t.TempDir(), "theirs")
	if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if err := private(theirs); err == nil || !strings.Contains(err.Error(), "belongs to uid 65534") {
		t.Errorf("directory of another user: got %v", err)
	}
}

// TestRootPeerOfAnUnknownUser checks a peer in a user namespace that does not know the
// peer's uid; in many containers root alone may make a user namespace.
func TestRootPeerOfAnUnknownUser(t *testing.T) {
	const host = 1 // so that the other end, root, is unknown in there
	inside := int(overflowUID())
	out, err := askPeer(t, "TestPeerOfThisUser", &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: host, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
		Credential:  &syscall.Credential{Uid: uint32(inside), NoSetGroups: true},
	})
	if err != nil || !strings.Contains(out, "refused: uid 65534 stands for every user") {
		t.Errorf("got %v:\n%s", err, out)
	}
}
