package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/filch-hpc/filch/launcher/config"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/slots"
)

func sample(t *testing.T) place.Node {
	t.Helper()
	return place.Node{
		Dir: place.Dir{Base: filepath.Join(t.TempDir(), "b"), Instance: "brave-otter", Node: "n1"}, UUID: "u-1", Members: 4,
		Slots: 2, Cores: []int32{4, 5}, MemBytes: 1 << 33, GPUs: []string{"0"}, Keeper: "/bin/filch", Secret: "/s",
		Listen: []string{"127.0.0.1:0"}, Seeds: []string{"127.0.0.1:7"}, Virtual: true,
		Tuning: place.Tuning{LogBytes: 4096, Debug: true, Spare: 2},
	}
}

func write(t *testing.T, n place.Node) string {
	t.Helper()
	if err := n.Dir.Make(); err != nil {
		t.Fatal(err)
	}
	if err := place.WriteNode(n); err != nil {
		t.Fatal(err)
	}
	return n.Dir.NodeFile()
}

func TestLoadReadsWhatWasWritten(t *testing.T) {
	n := sample(t)
	c, err := config.Load(write(t, n))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(n, c.Node); d != "" {
		t.Error(d)
	}
	if c.Log.MaxBytes != 4096 || !c.Log.Debug || c.Spare != 2 {
		t.Errorf("got %+v", c)
	}
}

func TestLoadHeedsTheEnvironment(t *testing.T) {
	path := write(t, sample(t))
	t.Setenv("FILCH_SLOTS", "7")
	t.Setenv("FILCH_SPARE", "5")
	c, err := config.Load(path)
	if err != nil || c.Node.Slots != 7 || c.Spare != 5 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestLoadHasDefaults(t *testing.T) {
	n := sample(t)
	n.Tuning = place.Tuning{}
	c, err := config.Load(write(t, n))
	if err != nil || c.Spare != 1 || c.Log.MaxBytes != 8<<20 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*place.Node)
		want  string
	}{
		"no-uuid":        {func(n *place.Node) { n.UUID = "" }, "uuid"},
		"negative-slots": {func(n *place.Node) { n.Slots = -1 }, "-1 slots"},
		"no-secret":      {func(n *place.Node) { n.Secret = "" }, "secret is not named"},
		"no-keeper":      {func(n *place.Node) { n.Keeper = "" }, "not named"},
		"many-spares":    {func(n *place.Node) { n.Tuning.Spare = 1000 }, "1000 keepers"},
	} {
		t.Run(name, func(t *testing.T) {
			n := sample(t)
			c.spoil(&n)
			if _, err := config.Load(write(t, n)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	path := write(t, sample(t))
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path); err == nil {
		t.Error("half a file was read")
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), "0644") {
		t.Errorf("a file that others may read: got %v", err)
	}
}

func TestCapacity(t *testing.T) {
	base := place.Node{Cores: []int32{2, 3}, MemBytes: 1, GPUs: []string{}}
	for name, c := range map[string]struct {
		slots int32
		want  slots.Capacity
	}{
		"one-per-core":               {0, slots.Capacity{Cores: []int32{2, 3}, CPUs: 2, Slots: 2, MemBytes: 1, GPUs: []string{}}},
		"fewer-slots-than-cores":     {1, slots.Capacity{Cores: []int32{2}, CPUs: 2, Slots: 1, MemBytes: 1, GPUs: []string{}}},
		"more-slots-bind-to-nothing": {5, slots.Capacity{CPUs: 2, Slots: 5, MemBytes: 1, GPUs: []string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := base
			n.Slots = c.slots
			got, err := config.Capacity(n)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	crowd, err := config.Capacity(place.Node{Cores: []int32{0}, Virtual: true, Members: 1 << 20})
	if err != nil || crowd.CPUs != 0 {
		t.Errorf("a virtual node among more than there are cores: got %+v, %v, want no core of its own", crowd, err)
	}
	got, err := config.Capacity(place.Node{})
	if err != nil || got.Slots < 1 || len(got.Cores) != int(got.Slots) || got.MemBytes < 1<<20 {
		t.Errorf("of this machine: got %+v, %v", got, err)
	}
}

func TestGPUs(t *testing.T) {
	dev := t.TempDir()
	for _, name := range []string{"nvidia0", "nvidia1", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"} {
		if err := os.WriteFile(filepath.Join(dev, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(config.GPUs(dev), " "), "0 1 2 10"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
