package children

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// The last output of a job may still be with its runners when the job ends: they are asked also
// afterwards, as long as not too many jobs have ended since.
func TestRunnersAreAskedBehindTheEnd(t *testing.T) {
	l, a, b := newLooks(), &wire.Conn{}, &wire.Conn{}
	asked := func(job filch.JobID) int {
		links, tokens, _ := l.begin(job)
		l.end(tokens)
		return len(links)
	}
	l.ordered(1, a)
	l.ordered(1, b)
	l.forget(1)
	if n := asked(1); n != 2 {
		t.Errorf("%d runners are asked behind the end, want 2", n)
	}
	l.ordered(1, a)
	for job := filch.JobID(2); job < pastMax+2; job++ {
		l.ordered(job, a)
		l.forget(job)
		l.forget(job)
	}
	if n, first := asked(1), asked(2); n != 2 || first != 1 {
		t.Errorf("%d runners are asked of a job that has tasks again, and %d of the oldest one, want 2 and 1", n, first)
	}
	l.forget(1)
	if oldest, last := asked(2), asked(1); oldest != 0 || last != 2 || len(l.links) != pastMax {
		t.Errorf("of %d jobs with links the oldest has %d, and the last %d, want %d, 0 and 2", len(l.links), oldest, last, pastMax)
	}
	if l.lost(a); asked(3) != 0 || asked(1) != 1 {
		t.Errorf("a runner that is gone is asked")
	}
}
