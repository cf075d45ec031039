package halt

import (
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

func TestHaltCountsEnds(t *testing.T) {
	tally := record.Tally{OK: 30, Failed: 4, Lost: 1}
	for _, c := range []struct {
		text    string
		soon    bool
		reached bool
		well    bool
	}{
		{"now,fail=5", false, true, false},
		{"now,fail=6", false, false, false},
		{"soon,fail=5", true, true, false},
		{"now,fail=5%", false, true, false},
		{"now,fail=6%", false, false, false},
		{"now,success=30", false, true, true},
		{"soon,success=31", true, false, true},
		{"soon,success=30%", true, true, true},
		{"now,done=35", false, true, false},
		{"now,done=36", false, false, false},
		{"soon,done=35%", true, true, false},
		{"never", false, false, false},
		{"", false, false, false},
	} {
		h, err := Read(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		news := launcher.TaskNews{What: launcher.TasksProgress, Total: 100, Tally: tally}
		if got := h.reached(news); got != c.reached || h.soon != c.soon || h.well(news) != c.well {
			t.Errorf("%q: reached %t, soon %t, well %t, want %t, %t, %t", c.text, got, h.soon, h.well(news), c.reached, c.soon, c.well)
		}
		news.What = launcher.TasksFinished
		if h.reached(news) {
			t.Errorf("%q ends a job that has ended", c.text)
		}
	}
	good := launcher.TaskNews{Tally: record.Tally{OK: 3, Cancelled: 5}}
	if h, _ := Read("soon,done=3"); !h.well(good) {
		t.Error("the cancelled tasks of a halted job count as bad")
	}
	for _, text := range []string{"now", "soon", "later,fail=1", "now,fail", "now,fail=", "now,fail=0", "now,fail=-1", "now,fail=+1", "now,fail=101%", "now,fails=1", "now,fail=1x", "fail=1"} {
		if h, err := Read(text); err == nil {
			t.Errorf("%q is read as %+v", text, h)
		}
	}
}
