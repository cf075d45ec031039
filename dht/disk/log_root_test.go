//go:build root

package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRootLogOfAnotherUser gives the folder of a log to another user.
func TestRootLogOfAnotherUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 65534, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "65534") {
		t.Errorf("got %v, want that the folder belongs to 65534", err)
	}
}

// TestRootFullDisk fills a tmpfs of 2 MB, in a mount namespace of its own.
func TestRootFullDisk(t *testing.T) {
	const inside = "FILCH_FULL_DISK"
	if dir := os.Getenv(inside); dir != "" {
		fillDisk(t, dir)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-ec",
		`mount -t tmpfs -o size=2m,mode=700 tmpfs "$1"; shift; exec "$@"`, "sh", dir, self, "-test.run", "^TestRootFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestRootFullDisk")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func fillDisk(t *testing.T, mount string) {
	ballast := filepath.Join(mount, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 512<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(mount, "log")
	v := &voice{}
	cfg := Config{Dir: dir, SegmentBytes: 128 << 10, Report: v.hear}
	l := mustOpen(t, cfg)
	value := bytes.Repeat([]byte{7}, 2000)
	keys, n := 0, uint64(0)
	fill := func(failures int) {
		for v.count(Failed) < failures && keys < 10000 {
			n = mustAppend(t, l, Entry{fmt.Sprint("k", keys), value})
			keys++
			l.Hurry(n)
			if keys%20 == 0 {
				poll(t, "written, or not", func() bool { return l.Stats().Synced >= n || v.count(Failed) == failures })
			}
		}
		if err := l.Stats().Failed; !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("after %d keys: got %v, want a full disk", keys, err)
		}
	}
	fill(1)
	durable := l.Stats().Synced
	if got := contents(t, l); uint64(len(got)) < durable || durable == 0 {
		t.Errorf("%d keys are read on the full disk, %d are durable", len(got), durable)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	mustSync(t, l, n)
	poll(t, "the end of the failure is told", func() bool { return v.count(Back) == 1 })
	// Now the log itself has filled it, and has to make room.
	fill(2)
	for i := range keys / 2 {
		n = mustAppend(t, l, Entry{fmt.Sprint("k", i), nil})
	}
	mustSync(t, l, n)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, mustOpen(t, cfg)); len(got) != keys-keys/2 {
		t.Errorf("got %d keys, want %d", len(got), keys-keys/2)
	}
	if v.count(Torn)+v.count(Damaged) > 0 {
		t.Errorf("the log has damage: %v", v.all)
	}
}
