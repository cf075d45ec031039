package policy

import (
	"strings"
	"testing"
	"time"
)

// TestAhead: of a workflow, a thief takes a task for each free slot, and what its slots run in
// a tenth of a second.
func TestAhead(t *testing.T) {
	for _, c := range []struct {
		free, slots int32
		mean        time.Duration
		want        int64
	}{
		{4, 4, time.Minute, 4},
		{1, 4, 100 * time.Millisecond, 5},
		{1, 16, time.Millisecond, 1601},
		{0, 0, 0, 0},
		{2, 0, 100 * time.Millisecond, 4}, // the room of the thief's node is not known
	} {
		if got := Ahead(c.free, c.slots, c.mean); got != c.want {
			t.Errorf("a thief with %d of %d slots free takes %d tasks of %v, want %d", c.free, c.slots, got, c.mean, c.want)
		}
	}
}

// TestKept: of tasks of 100 ms whose input takes 300 ms to another node, a node of 4 slots keeps
// 12: the last waits for 300 ms. Of tasks whose input takes no time, it keeps none.
func TestKept(t *testing.T) {
	for _, c := range []struct {
		slots            int32
		transfer, length time.Duration
		want             int
	}{{4, 300 * time.Millisecond, 100 * time.Millisecond, 12}, {4, 0, time.Second, 0}, {4, 1 << 62, 0, 1 << 30}} {
		if got := Kept(c.slots, c.transfer, c.length); got != c.want {
			t.Errorf("%d slots keep %d tasks of %v with transfers of %v, want %d", c.slots, got, c.length, c.transfer, c.want)
		}
	}
}

// TestSharing is the tt of MATRIX v2 (IV.E): halved when tasks are shared, doubled up to the
// set value when a steal fails.
func TestSharing(t *testing.T) {
	var s Sharing
	s.Set(30 * time.Second)
	if n := s.Excess(5000, 100); n != 2000 || s.TT() != 15*time.Second {
		t.Errorf("%d tasks are shared, tt is %v; want 2000 and 15s", n, s.TT())
	}
	s.Failed()
	s.Failed()
	if s.TT() != 30*time.Second {
		t.Errorf("after failed steals tt is %v, want 30s", s.TT())
	}
	for range 40 {
		s.Excess(1<<20, 1)
	}
	if s.TT() != ttMin {
		t.Errorf("tt fell to %v, want %v", s.TT(), ttMin)
	}
}

// TestAuto: by the share of the transfers, balance alone, the node that ends a task first, or
// the node of the input.
func TestAuto(t *testing.T) {
	const gb = 1e9
	work := 800 * time.Second // a gigabyte takes 8 s before the first transfer
	for _, c := range []struct {
		name   string
		bytes  float64
		tasks  int
		copies int
		rate   float64
		want   Kind
		why    string
	}{
		{"no data", 0, 10, 8, 0, MLB, "0 %"},
		{"little data", gb, 1, 8, 0, MLB, "0.99 %"},
		{"some data", 10 * gb, 1, 8, 0, ADAGE, "9.1 %"},
		{"a fast network", 10 * gb, 1, 8, 10 * gb, MLB, "0.12 %"},
		{"one output with many readers goes to each node once", gb / 4, 1000, 8, 0, MLB, "2 %"},
		{"transfers take all the time", 300 * gb, 1, 8, 0, MDL, "75 % of the time, and no output has more than 2 readers"},
		{"and all tasks read one output", 60 * gb, 1000, 8, 0, ADAGE, "83 %"},
	} {
		f := Profile{Tasks: 4, Roots: 1, Work: work, Rate: c.rate}
		f.Read(c.bytes, c.tasks, c.copies)
		got := f.Choose()
		if got.Kind != c.want || !strings.Contains(got.Why, strings.TrimSuffix(c.why, " %")) {
			t.Errorf("%s: %s, want %v with %s", c.name, got, c.want, c.why)
		}
	}
}

// TestAutoOfShallowWorkflows: where most tasks wait for none or one, tasks go to the input that
// other tasks wrote, unless an output has more than two readers, or a node has much of the outputs.
func TestAutoOfShallowWorkflows(t *testing.T) {
	base := Profile{Tasks: 1281, Roots: 640, Fan: 1, Input: 10e9, Fewer: 10e9, Work: 800 * time.Second}
	for _, c := range []struct {
		name   string
		change func(f *Profile)
		want   Kind
	}{
		{"a file for each task", func(*Profile) {}, MDL},
		{"a chain of four", func(f *Profile) { f.Roots = 320 }, ADAGE},
		{"three readers", func(f *Profile) { f.Fan = 3 }, ADAGE},
		{"an eighth on each node", func(f *Profile) { f.Crowd = 0.125 }, MDL},
		{"half on one node", func(f *Profile) { f.Crowd = 0.5 }, ADAGE},
		{"input of the submission", func(f *Profile) { f.Initial = 9e9 }, ADAGE},
		{"little data", func(f *Profile) { f.Fewer = 1e9 }, MLB},
	} {
		f := base
		c.change(&f)
		if got := f.Choose(); got.Kind != c.want {
			t.Errorf("%s: %s, want %v", c.name, got, c.want)
		}
	}
}

// TestBandwidthOfOthers: before the first transfer here, the rates of other nodes count.
func TestBandwidthOfOthers(t *testing.T) {
	var e Estimates
	if e.Heard(0); e.Bandwidth() != bandwidth || e.Known() != 0 || e.Measured() != 0 {
		t.Errorf("with nothing measured: %g", e.Bandwidth())
	}
	if e.Heard(1e8); e.Bandwidth() != 1e8 || e.Measured() != 0 {
		t.Errorf("as heard: %g, want 1e8, and nothing measured here", e.Bandwidth())
	}
	if e.Moved(2e8, time.Second); e.Bandwidth() != 2e8 || e.Measured() != 2e8 {
		t.Errorf("as measured: %g, want 2e8", e.Bandwidth())
	}
}
