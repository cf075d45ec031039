package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

func sampleCopy() *launcher.Copy {
	return &launcher.Copy{File: strings.Repeat("0a", 16), Bytes: 30 << 20, Name: "solver"}
}

func TestCopyCheck(t *testing.T) {
	for name, spoil := range map[string]func(c *launcher.Copy){
		"no-file":          func(c *launcher.Copy) { c.File = "" },
		"short-file":       func(c *launcher.Copy) { c.File = "0a" },
		"file-above":       func(c *launcher.Copy) { c.File = "../" + strings.Repeat("0", 29) },
		"no-name":          func(c *launcher.Copy) { c.Name = "" },
		"a-dot":            func(c *launcher.Copy) { c.Name = "." },
		"two-dots":         func(c *launcher.Copy) { c.Name = ".." },
		"a-path":           func(c *launcher.Copy) { c.Name = "a/b" },
		"a-nul":            func(c *launcher.Copy) { c.Name = "a\x00b" },
		"a-long-name":      func(c *launcher.Copy) { c.Name = strings.Repeat("x", 201) },
		"relative":         func(c *launcher.Copy) { c.Dest = "here" },
		"a-nul-in-a-place": func(c *launcher.Copy) { c.Dest = "/a\x00" },
		"nothing":          func(c *launcher.Copy) { c.Bytes = 0 },
		"negative":         func(c *launcher.Copy) { c.Bytes = -1 },
		"too-large":        func(c *launcher.Copy) { c.Bytes = launcher.MaxCopyBytes + 1 },
	} {
		c := sampleCopy()
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		spoil(c)
		err := c.Check()
		if err == nil || err.Kind != filch.Invalid {
			t.Errorf("%s: got %v", name, err)
		}
		r := gang(2)
		r.Copy = c
		w := newNet(t, 2, 2)
		if id := w.submit("n1", 1, r); id != 0 {
			t.Errorf("%s: job %d was made of it", name, id)
		}
	}
	if err := (*launcher.Copy)(nil).Check(); err != nil {
		t.Errorf("no copy: %v", err)
	}
}

// What a copy takes is added to the time in which all must be ready, and the
// submitter does not say where it is.
func TestCopyHasTime(t *testing.T) {
	w := newNet(t, 3, 1)
	w.behave = func(k *keeper) { k.deaf = k.start.Launch.Nodes[k.start.Index].Node == "n3" }
	r := gang(3)
	r.Copy = sampleCopy()
	r.Copy.Bytes, r.Copy.From = 100*launcher.CopyRate, "n9"
	id := w.submit("n1", 1, r)
	w.run(launcher.PrepareWait + 99*time.Second)
	for _, e := range w.events[id] {
		if e, over := e.(launcher.Ended); over {
			t.Fatalf("it has ended before its time: %+v", e)
		}
	}
	for _, k := range w.nodes["n2"].keepers {
		if c := k.start.Launch.Copy; c == nil || c.From != "n1" || k.start.Launch.CopyParent(k.start.Index) != "n1" {
			t.Errorf("n2 is told of %+v", c)
		}
	}
	w.run(20 * time.Second)
	if e := w.ended(id); !strings.Contains(e.Cause.Text, "n3 was not ready within 2m40s") {
		t.Errorf("got %+v", e)
	}
}
