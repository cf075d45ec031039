//go:build root

package faults

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// shellUnpack is how copies were once unpacked: a run of sh on every node, with
// the name of the folder among its arguments before that is made. It is here so
// that the attacker proves that it can win.
const shellUnpack = `set -e
umask 077
mkdir -p -- "$1"
cd -- "$1"
new=$(mktemp -d .filch-bcast-XXXXXXXX)
trap 'rm -rf -- "$new"' EXIT
tar -xf - -C "$new"
mv -f -- "$new/$2" "$2"`

// bcastWait bounds one run of the stage.
const bcastWait = time.Minute

// filch runs a filch command of the user.
func (s *stage) filch(stdin []byte, args ...string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), bcastWait) // also for a cleanup
	defer cancel()
	cmd := exec.CommandContext(ctx, s.c.Bin, args...)
	cmd.Dir = s.path("home")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.path("home"), "TMPDIR=" + s.path("tmp"),
		"FILCH_LOCAL=" + s.path("tmp"), "FILCH_INSTANCE=race", "USER=root", "LANG=C",
	}
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), errors.Join(err, ctx.Err())
}

func (s *stage) must(args ...string) {
	s.t.Helper()
	if out, err := s.filch(nil, args...); err != nil {
		s.t.Fatalf("filch %v: %v: %s", args, err, out)
	}
}

// attacked starts the attacker.
func (s *stage) attacked() {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(s.path("attacker"), b, 0o755)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(s.path("attacker"))
	cmd.Env = []string{attacksIn + "=" + s.dir, "PATH=" + os.Getenv("PATH")}
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// program writes the user's program.
func (s *stage) program() (path string, archive []byte) {
	s.t.Helper()
	text := []byte("#!/bin/sh\nexit 0\n")
	path = s.path("home/prog")
	err := os.WriteFile(path, text, 0o755)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err == nil {
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "prog", Size: int64(len(text)), Mode: 0o700})
	}
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		s.t.Fatal(err)
	}
	return path, b.Bytes()
}

func word() string {
	var b [6]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// TestBcastRace has another user attack the copies of programs: it wins against
// the shell that unpacked them once, and never against the keepers.
func TestBcastRace(t *testing.T) {
	s := newStage(t)
	s.must("up", "--instance", "race", "--nodes", "2", "--slots", "2")
	t.Cleanup(func() {
		if out, err := s.filch(nil, "down", "--instance", "race"); err != nil {
			t.Errorf("filch down: %v: %s", err, out)
		}
	})
	prog, archive := s.program()
	s.attacked()

	runs, won := rig.Sized(40, 200), 0
	for i := range runs {
		args := []string{"run", "-N", "2", "-n", "2", "--bcast"}
		switch i % 4 {
		case 1: // at a place where all may write
			args[5] = "--bcast=" + s.path("tmp/bcast-"+word()+"/prog")
		case 3:
			args[5] = "--bcast=" + s.path("tmp/prog")
		}
		out, err := s.filch(nil, append(args, prog)...)
		if err != nil && (i%4 != 1 || !strings.Contains(out, "belongs to uid 65534")) { // where the other was first, it is refused
			t.Errorf("filch %v: %v: %s", args, err, out)
		}
		_ = os.Remove(s.path("tmp/prog"))
		if wins := s.wins(); len(wins) > 0 {
			won++
			t.Errorf("run %d, %v: the other user won: %v", i, args, wins)
		}
	}
	t.Logf("the keepers: %d of %d runs were won by another user", won, runs)

	tries, first := 5*runs, []string(nil)
	for i := 0; i < tries && first == nil; i++ {
		dir := s.path("tmp/filch-bcast-0-"+word()) + "/"
		_, _ = s.filch(archive, "run", "-N", "2", "-n", "2", "sh", "-c", shellUnpack, "sh", dir, "prog")
		_, _ = s.filch(nil, "run", "-N", "2", "-n", "2", dir+"prog")
		_, _ = s.filch(nil, "run", "-N", "2", "-n", "2", "rm", "-rf", "--", dir)
		if first = s.wins(); first != nil {
			t.Logf("the shell: won at try %d: %v", i+1, first)
		}
	}
	if first == nil {
		t.Errorf("the attacker did not win once in %d tries against a shell: it proves nothing", tries)
	}
}

// state is the folder of copies of a host, as it was last changed.
func (c *cluster) bcast(i int) (left []string, changed time.Time) {
	c.T.Helper()
	dir := c.StateDir(i).Bcast()
	entries, err := os.ReadDir(dir)
	st, serr := os.Stat(dir)
	if err = errors.Join(err, serr); err != nil {
		c.T.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return left, st.ModTime()
}

// padded writes a program of about so many bytes.
func (c *cluster) padded(name, script string, size int64) string {
	c.T.Helper()
	path := filepath.Join(c.Dir, name)
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\nexit 0\n"), 0o755)
	if err == nil {
		err = os.Truncate(path, size)
	}
	if err != nil {
		c.T.Fatal(err)
	}
	return path
}

// traffic is what each host has received.
func (c *cluster) traffic() []uint64 {
	c.T.Helper()
	rx := make([]uint64, len(c.Hosts))
	for i, h := range c.Hosts {
		var err error
		if rx[i], _, err = h.Bytes(); err != nil {
			c.T.Fatal(err)
		}
	}
	return rx
}

// TestBcastOnHosts counts the bytes that come to each host, and has one that is
// full say so.
func TestBcastOnHosts(t *testing.T) {
	const full, room = 2, 192 << 20
	c := up(t, 4, map[int]int{full: room})
	const size = 24 << 20
	prog := c.padded("prog", "echo $0", size)
	before := c.traffic()
	out := c.Must(0, "run", "--bcast", "-N", "4", "-n", "8", prog)
	after := c.traffic()
	for i, h := range c.Hosts {
		if n := strings.Count(out, c.StateDir(i).Bcast()+"/"); n != 2 {
			t.Errorf("%d ranks ran the copy of %s, want 2: %s", n, h.Name, out)
		}
		got := after[i] - before[i]
		t.Logf("%s received %.1f MB", h.Name, float64(got)/1e6)
		if i > 0 && (got < size || got > size*3/2) || i == 0 && got > size/2 {
			t.Errorf("%s received %d bytes for two ranks of a program of %d", h.Name, got, int64(size))
		}
		if left, _ := c.bcast(i); len(left) > 0 {
			t.Errorf("left on %s: %v", h.Name, left)
		}
	}
	large := c.padded("large", "exit 0", room)
	out, err := c.Try(0, "run", "--bcast", "-N", "4", "-n", "4", large)
	if err == nil || !strings.Contains(out, "cannot copy large") || !strings.Contains(out, "to "+c.Hosts[full].Name) || !strings.Contains(out, "no space left") {
		t.Errorf("a host without room: got %v: %s", err, out)
	}
	if left, _ := c.bcast(full); len(left) > 0 {
		t.Errorf("left on %s: %v", c.Hosts[full].Name, left)
	}
	dest := filepath.Join(c.Dir, "dest/tool") // which all hosts share
	c.Must(0, "run", "--bcast="+dest, "-N", "4", "-n", "4", prog)
	if st, err := os.Stat(dest); err != nil || st.Size() != size {
		t.Errorf("the copy that is to stay: %v, %v", st, err)
	}
	if e, _ := os.ReadDir(filepath.Dir(dest)); len(e) != 1 {
		t.Errorf("beside it: %v", e)
	}
}

// TestBcastTouchesOnlyItsNodes: a host that joins while the ranks run has
// nothing of the copy removed, whatever was put there in its name.
func TestBcastTouchesOnlyItsNodes(t *testing.T) {
	s := newStage(t)
	c := &cluster{rig.New(t, "later", 2)}
	c.Open(3)
	c.Join(0)
	c.Join(1)
	gate := filepath.Join(c.Dir, "gate")
	prog := c.padded("prog", "echo $0; while [ ! -e "+gate+" ]; do sleep 0.02; done", 1000)
	ctx, cancel := context.WithTimeout(t.Context(), bcastWait)
	defer cancel()
	var out bytes.Buffer
	cmd := c.Command(ctx, 0, "run", "--bcast", "-N", "2", "-n", "2", prog)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	here := ""
	for end := time.Now().Add(bcastWait); here == "" && time.Now().Before(end); pause() {
		if left, _ := c.bcast(1); len(left) == 1 && !strings.Contains(left[0], "tar") && !strings.Contains(left[0], "part") {
			here = left[0]
		}
	}
	c.Join(2)
	there := filepath.Join(c.StateDir(2).Bcast(), here)
	if err := exec.Command("setpriv", "--reuid", fmt.Sprint(nobody), "--clear-groups", "ln", "-s", s.path("victim"), there).Run(); err == nil {
		t.Errorf("another user has put a link at %s", there)
	}
	if err := os.Symlink(s.path("victim"), there); err != nil { // as if it could
		t.Fatal(err)
	}
	_, was := c.bcast(2)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || here == "" {
		t.Fatalf("the run: %v: %s", err, out.String())
	}
	if left, now := c.bcast(2); len(left) != 1 || !now.Equal(was) {
		t.Errorf("%s was touched: %v, changed at %v, before that at %v", there, left, now, was)
	}
	if wins := s.wins(); len(wins) > 0 {
		t.Errorf("the link was followed: %v", wins)
	}
	// As it was removed once: on all nodes that are up by then.
	link := s.path("tmp/filch-bcast-0-" + word())
	if err := os.Symlink(s.path("victim"), link); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Try(0, "run", "-w", c.Hosts[2].Name, "rm", "-rf", "--", link+"/"); err != nil {
		t.Logf("rm: %v: %s", err, out)
	}
	if wins := s.wins(); len(wins) == 0 {
		t.Error("rm has not followed the link: the scene proves nothing")
	}
}
