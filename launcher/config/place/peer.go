package place

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// overflowDefault is the kernel's default of the uid that stands for unknown uids.
const overflowDefault = 65534

// overflowUID returns the uid that the kernel shows for all uids unknown to this user
// namespace.
var overflowUID = sync.OnceValue(func() uint32 {
	b, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if n, bad := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32); err == nil && bad == nil {
		return uint32(n)
	}
	return overflowDefault
})

// partialUIDs reports whether some uids are unknown to this user namespace. An
// unreadable uid_map counts as partial.
var partialUIDs = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || partialMap(string(b))
})

// partialMap reports whether a uid_map leaves uids out; a whole map has all uids but
// the last, which means "none".
func partialMap(text string) bool {
	known := uint64(0)
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 {
			n, _ := strconv.ParseUint(f[2], 10, 32)
			known += n
		}
	}
	return known < 1<<32-1
}

// Ambiguous refuses a user with the uid that stands for all unknown uids in this user
// namespace: files and peers of others would look like the user's own.
func Ambiguous() error {
	if uid := os.Geteuid(); uint32(uid) == overflowUID() && partialUIDs() {
		return filch.Errorf(filch.Denied, "uid %d stands for every user that is unknown in this user namespace: filch could not tell these users apart", uid).
			WithHint("run filch as another user, or in a namespace that maps all uids (/proc/self/uid_map)")
	}
	return nil
}

// CheckPeer refuses the other end of a unix socket unless this user opened the socket,
// and returns the process of the other end.
func CheckPeer(fd int) (pid int, err error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, filch.Errorf(filch.Internal, "cannot find the user of the peer: %s", Cause(err))
	}
	if int(cred.Uid) != os.Geteuid() {
		return 0, filch.Errorf(filch.Denied, "this launcher serves uid %d, not uid %d", os.Geteuid(), cred.Uid)
	}
	return int(cred.Pid), Ambiguous()
}
