package bringup

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// otherBuild is a process in the place of a launcher of another wire version: its socket
// refuses each client, and its lock is held until the process ends.
func otherBuild(t *testing.T) (place.Dir, *exec.Cmd) {
	parent, err := os.MkdirTemp("/tmp", "fb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	t.Setenv("FILCH_LOCAL", parent)
	base, err := place.Base()
	if err != nil {
		t.Fatal(err)
	}
	d := place.Dir{Base: base, Instance: "brave-otter", Node: "n1"}
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", d.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			sock, err := l.Accept()
			if err != nil {
				return
			}
			c := wire.NewConn(sock)
			_ = c.WriteRaw(wire.KindRefusal, 0, wire.EncodeRefusal("the peer speaks wire version 9, this is version 1", "use one build"))
			_ = c.Drain(time.Second)
		}
	}()
	p := exec.Command("sleep", "1000")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(d.PIDFile())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.WriteString(strconv.Itoa(p.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait()
		lock.Close()
	}()
	t.Cleanup(func() { _ = p.Process.Kill() })
	return d, p
}

// TestLaunchersOfAnotherBuild: filch up does not take them for dead, and filch down ends
// them with TERM, without waiting for the time after which it kills.
func TestLaunchersOfAnotherBuild(t *testing.T) {
	d, p := otherBuild(t)
	b := &localNodes{base: d.Base, instance: d.Instance}
	if dead, alive := b.survey(); len(dead) != 0 || len(alive) != 1 {
		t.Errorf("%d launchers are dead, %d alive; want 0 and 1", len(dead), len(alive))
	}
	began := time.Now()
	if err := down(&cli.Global{Instance: d.Instance}, true); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > downWait/2 {
		t.Errorf("took %v", took)
	}
	if s, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGTERM {
		t.Errorf("the launcher ended by %v, want TERM", p.ProcessState)
	}
}
