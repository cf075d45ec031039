package place

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// A launcher that was stopped alone leaves its kept output, and nothing else.
func TestAsideKeepsOutput(t *testing.T) {
	base := filepath.Join(shortDir(t), "b")
	d := Dir{Base: base, Instance: "brave-otter", Node: "n1"}
	if err := d.SetAside(); err != nil || d.HasAside() {
		t.Fatalf("a node without a folder: %v, kept: %t", err, d.HasAside())
	}
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	if err := d.SetAside(); err != nil || d.HasAside() || len(subdirs(base)) != 0 {
		t.Fatalf("a node without output: %v, kept: %t, left: %v", err, d.HasAside(), subdirs(base))
	}
	if err := d.TakeBack(); err != nil {
		t.Fatalf("nothing to take back: %v", err)
	}
	for range 2 { // a node may be stopped, started and stopped
		if err := d.Make(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{d.PIDFile(), d.NodeFile(), filepath.Join(d.Out(), "7")} {
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var group sync.WaitGroup
		for range 8 { // the launcher and the command may both do so
			group.Go(func() {
				if err := d.SetAside(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if got := subdirs(filepath.Join(base, d.Instance)); !d.HasAside() || len(got) != 1 || len(Nodes(base, d.Instance)) != 0 {
			t.Fatalf("kept: %t, folders: %v", d.HasAside(), got)
		}
		if err := d.TakeBack(); err != nil {
			t.Fatal(err)
		}
		if got := subdirs(d.Path()); d.HasAside() || !slices.Equal(got, []string{"out"}) {
			t.Fatalf("after the return: kept: %t, folders: %v", d.HasAside(), got)
		}
		if _, err := os.Stat(d.PIDFile()); err == nil {
			t.Fatal("the pid file came back")
		}
	}
	if err := d.SetAside(); err != nil {
		t.Fatal(err)
	}
	RemoveAside(base, d.Instance)
	if got := subdirs(base); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}
