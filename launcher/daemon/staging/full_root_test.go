//go:build root

package staging

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// A disk without space for an input is the reason of a task that does not start, with the
// node and the folder. No part of the file is left.
func TestRootInputOnFullDisk(t *testing.T) {
	for _, size := range []int{60 << 10, 600 << 10} {
		c := newGroup(t, "n1", "n2")
		c.wrote("n1", 0, "input", bytes.Repeat([]byte("x"), size))
		dir := c.node("n2").dir
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=32k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		err := c.node("n2").fill(t.Context(), attempt(map[int32]filch.NodeName{0: "n1"}, launcher.TaskFile{Path: "input"}))
		if err == nil || !isFull(err) || !strings.Contains(err.Error(), "the disk of "+dir+" on n2 is full: ") {
			t.Errorf("%d bytes: got %v", size, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "5", keptPath(0, "input"))); err == nil {
			t.Error("a part of the file has the file's name")
		}
		c.noParts("n2")
	}
}
