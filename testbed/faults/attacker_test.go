//go:build root

package faults

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/testbed/rig"
)

// The test binary, run as another user with this in its environment, is the
// attacker on the stage in that folder.
const attacksIn = "FILCH_ATTACKS_IN"

// nobody is the attacker's uid: it owns nothing.
const nobody = 65534

// stage is a folder in which a user runs filch and another one attacks:
//
//	tmp      all may write to it, as to /tmp; the state of the launchers is in it
//	home     the user's own
//	victim   a folder of the user, and victim.txt a file, that links lead to
//	marks    all may write to it: what the attacker's program says, and what it got
type stage struct {
	t   *testing.T
	dir string
	c   *rig.Cluster
}

// newStage makes one.
func newStage(t *testing.T) *stage {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("another user attacks: run it as root")
	}
	dir, err := os.MkdirTemp("/tmp", "fa")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &stage{t: t, dir: dir, c: rig.New(t, "race", 2)}
	for name, mode := range map[string]os.FileMode{"": 0o755, "tmp": os.ModeSticky | 0o777, "home": 0o700, "marks": os.ModeSticky | 0o777} {
		_ = os.Mkdir(filepath.Join(dir, name), 0o700)
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	s.plant()
	return s
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// plant makes what the attacker is after.
func (s *stage) plant() {
	s.t.Helper()
	err := os.MkdirAll(s.path("victim"), 0o700)
	for _, name := range []string{"victim/keep", "victim.txt"} {
		if err == nil {
			err = os.WriteFile(s.path(name), []byte("precious"), 0o600)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// wins lists what the attacker has got so far, and clears that.
func (s *stage) wins() []string {
	s.t.Helper()
	var wins []string
	for _, name := range []string{"victim/keep", "victim.txt"} {
		if b, err := os.ReadFile(s.path(name)); string(b) != "precious" {
			wins = append(wins, name+" of the user is gone or changed: "+string(b)+errText(err))
		}
	}
	marks, err := os.ReadDir(s.path("marks"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range marks {
		b, _ := os.ReadFile(s.path("marks/" + m.Name()))
		_ = os.Remove(s.path("marks/" + m.Name()))
		wins = append(wins, m.Name()+": "+strings.TrimSpace(string(b)))
	}
	if len(wins) > 0 {
		s.plant()
	}
	return wins
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// attack is the attacker's main: it looks at what all processes were started
// with, and at the folder that all may write to, and wherever a copy may be it
// tries to be first, to put its own in the place of the program, and to have a
// link followed. It ends with the test.
func attack(dir string) {
	a := &attacker{dir: dir, seen: map[string]bool{}, own: os.Getpid()}
	for {
		a.lookAtProcesses()
		a.lookAtFolder(filepath.Join(dir, "tmp"), 4)
		for place := range a.seen {
			a.at(place)
		}
	}
}

type attacker struct {
	dir  string
	seen map[string]bool // folders that copies are in, or may come to; true: it is ours
	own  int
}

// evil is the program of the attacker: it says as whom it runs.
func (a *attacker) evil() []byte {
	return []byte("#!/bin/sh\nid -u > " + a.dir + "/marks/ran.$$\n")
}

// lookAtProcesses takes the names of copies from the arguments of processes that
// began after the attacker.
func (a *attacker) lookAtProcesses() {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid <= a.own {
			continue
		}
		b, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		for word := range strings.SplitSeq(string(b), "\x00") {
			if i := strings.Index(word, "/"); i >= 0 && strings.Contains(word, "bcast") && !strings.ContainsAny(word, "\n ") {
				a.note(word[i:])
			}
		}
	}
}

// note takes a path that is of a copy: a folder, or the program in it.
func (a *attacker) note(path string) {
	if !strings.HasPrefix(path, a.dir) {
		return
	}
	if filepath.Base(path) == "prog" {
		path = filepath.Dir(path)
	}
	if path = filepath.Clean(path); !a.seen[path] {
		a.seen[path] = false
	}
}

// lookAtFolder notes the folders with such names that may be seen.
func (a *attacker) lookAtFolder(dir string, deep int) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.Contains(e.Name(), "bcast") {
			a.note(path)
		}
		if e.IsDir() && deep > 0 {
			a.lookAtFolder(path, deep-1)
		}
	}
}

// at does what can be done in one place.
func (a *attacker) at(place string) {
	if !a.seen[place] && os.Mkdir(place, 0o777) == nil {
		_ = os.Chmod(place, 0o777)
		a.seen[place] = true
	}
	prog := filepath.Join(place, "prog")
	var st syscall.Stat_t
	switch err := syscall.Lstat(prog, &st); {
	case err == nil && st.Uid != nobody:
		a.replace(place, prog)
	case err != nil && !a.seen[place]:
		_ = os.Symlink(filepath.Join(a.dir, "victim.txt"), prog)
		_ = os.Symlink(filepath.Join(a.dir, "victim"), prog+"_libs")
	}
	if _, err := os.Lstat(place); err != nil { // it was removed: who removes it again may follow a link
		a.seen[place] = false
		_ = os.Symlink(filepath.Join(a.dir, "victim"), place)
	}
}

// replace puts the attacker's program in the place of the user's.
func (a *attacker) replace(place, prog string) {
	mine := filepath.Join(place, ".mine")
	if os.WriteFile(mine, a.evil(), 0o755) != nil {
		mine = filepath.Join(a.dir, "tmp", ".mine")
		_ = os.WriteFile(mine, a.evil(), 0o755)
	}
	_ = os.Chmod(mine, 0o755)
	// An exchange, and not a rename: the test itself removes programs, and to
	// come after that is no win.
	var st syscall.Stat_t
	if unix.Renameat2(unix.AT_FDCWD, mine, unix.AT_FDCWD, prog, unix.RENAME_EXCHANGE) == nil && syscall.Lstat(mine, &st) == nil && st.Uid != nobody {
		_ = os.WriteFile(filepath.Join(a.dir, "marks", "replaced."+strconv.Itoa(os.Getpid())), []byte(prog), 0o644)
	}
	if os.WriteFile(prog+".new", nil, 0o644) == nil {
		_ = os.Remove(prog + ".new")
	}
}
