package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// launcherOf is a launcher that takes clients; with an answer, the launcher answers each
// query.
func launcherOf(t *testing.T, base, name string, answer *wire.Overview) place.Dir {
	t.Helper()
	d := place.Dir{Base: base, Instance: "brave-otter", Node: name}
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path(), "node.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", d.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if answer == nil {
		return d // hangs: the kernel takes the connection
	}
	go func() {
		for {
			sock, err := l.Accept()
			if err != nil {
				return
			}
			c := wire.NewConn(sock)
			for {
				f, err := c.Read()
				if err != nil {
					break
				}
				if f.Kind == wire.KindQuery {
					_ = c.Send(wire.KindAnswer, f.Req, wire.Answer{JSON: []byte(`{"self":"` + name + `"}`)})
				}
			}
			_ = c.Close()
		}
	}()
	return d
}

// A launcher that hangs costs askWait, and the next question goes to another launcher.
func TestAskerLeavesALauncherThatHangs(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "ft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	base = filepath.Join(base, "b")
	hangs := launcherOf(t, base, "n1", nil)
	launcherOf(t, base, "n2", &wire.Overview{})
	a := &asker{plan: client.Screen{Dir: hangs}}
	defer a.close()
	began := time.Now()
	if _, err := a.ask(0); ui.KindOf(err) != filch.Timeout || time.Since(began) > 2*askWait {
		t.Fatalf("after %s: %v", time.Since(began), err)
	}
	for range 4 { // n1 is tried again in its turn
		if view, err := a.ask(3); err == nil {
			if view.Self != "n2" {
				t.Errorf("%s answered", view.Self)
			}
			return
		}
	}
	t.Error("the other launcher was never asked")
}

func TestAskerWithoutLaunchers(t *testing.T) {
	base := filepath.Join(t.TempDir(), "b")
	a := &asker{plan: client.Screen{Dir: place.Dir{Base: base, Instance: "brave-otter", Node: "n1"}}}
	for range 3 {
		_, err := a.ask(0)
		if err == nil || ui.KindOf(err) != filch.Unavailable {
			t.Fatalf("got %v", err)
		}
		if text := textOf(err); a.conn != nil || !strings.Contains(text, "brave-otter") {
			t.Fatalf("got %q", text)
		}
	}
}

// What a command of a key prints is kept to runBytes, the last bytes first.
func TestTailIsBounded(t *testing.T) {
	var tl tail
	for range 100 {
		_, _ = tl.Write([]byte(strings.Repeat("x", 10_000)))
	}
	_, _ = tl.Write([]byte("end"))
	if s := tl.String(); len(tl.kept) != runBytes || cap(tl.kept) > 2*runBytes || !strings.HasSuffix(s, "xend") || !strings.HasPrefix(s, "(earlier") {
		t.Errorf("%d bytes kept of a capacity of %d", len(tl.kept), cap(tl.kept))
	}
}
