package policy

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

func TestSweepsAfterADeath(t *testing.T) {
	s := NewSweeps()
	if s.Due(time.Hour) {
		t.Error("a sweep without a reason")
	}
	now := time.Minute
	s.Died(now)
	n, told := 0, 0
	for end := now + time.Hour; now < end; now = s.At() {
		if n > 0 && !s.Due(now) {
			t.Fatalf("no sweep at %s", now)
		}
		if n++; s.Swept(now) {
			told++
		}
	}
	if n != int(sweepFor/SweepAgain)+1 || told != 3 {
		t.Errorf("%d sweeps, %d with tallies", n, told)
	}
	s.Rehomed(time.Hour)
	if s.Ask(); !s.Due(time.Hour+rehomePause) || !s.Swept(time.Hour+rehomePause) {
		t.Error("no sweep with tallies after records came home")
	}
}

func TestGoneOwners(t *testing.T) {
	s, m := NewSweeps(), NewMembers()
	m.Set(filch.Member{Name: "n1", Incarnation: 2, Standing: filch.Up})
	m.Set(filch.Member{Name: "n2", Incarnation: 1, Standing: filch.Gone})
	for o, want := range map[record.Owner]bool{{}: false, {Node: "n1", Incarnation: 1}: true, {Node: "n1", Incarnation: 2}: false, {Node: "n2", Incarnation: 1}: true} {
		if got := s.Gone(o, m, time.Second); got != want {
			t.Errorf("%v: got %t", o, got)
		}
	}
	never := record.Owner{Node: "n3"}
	if s.Gone(never, m, time.Second) || s.At() != time.Second+unseenGrace || !s.Gone(never, m, s.At()) {
		t.Errorf("a node that was never seen is gone at %s", s.At())
	}
}
