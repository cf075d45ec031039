package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// TestFirstSteal: the delay of the first steal of a job counts from the begin of the search,
// or from the news that ended a search in vain; later steals of the job have no delay, and a
// push is no steal.
func TestFirstSteal(t *testing.T) {
	const ms = time.Millisecond
	var p Poll
	p.Asked(10*ms, 3)
	p.Failed(Hierarchical, 8, PollMax)
	p.Told(500 * ms)
	p.Asked(500*ms, 3)
	p.Told(505 * ms)
	p.Win(509*ms, 7)
	p.Succeeded()
	if want := (Delays{1, 9 * ms, 9 * ms}); p.First != want {
		t.Errorf("first steal of job 7: %v, want %v", p.First, want)
	}
	p.Asked(600*ms, 3)
	p.Win(650*ms, 7)
	p.Succeeded()
	p.Win(660*ms, 0) // a push
	p.Told(700 * ms) // with tasks of its own
	p.Asked(900*ms, 3)
	p.Win(901*ms, 8)
	if want := (Delays{2, 10 * ms, 9 * ms}); p.First != want || p.Won != 3 || p.Tries != 4 {
		t.Errorf("%v, %d of %d tries won; want %v, 3 of 4", p.First, p.Won, p.Tries, want)
	}
	p.Succeeded()
	for range 100 {
		p.Asked(time.Second, 3)
		p.Failed(Hierarchical, 8, PollMax)
	}
	p.Asked(time.Minute, 3)
	p.Win(time.Minute+ms, 9)
	if p.First.Max != 9*ms {
		t.Errorf("a delay of %v counts the rest between two looks", p.First.Max)
	}
	for i := range 2 * stolenMax {
		p.Win(time.Hour, filch.JobID(100+i))
	}
	if len(p.jobs) != stolenMax {
		t.Errorf("remembers %d jobs, want at most %d", len(p.jobs), stolenMax)
	}
}

// A thief remembers its last victims, the last one last, and how many steals it won there.
func TestStealsRememberVictims(t *testing.T) {
	var s Steals
	for i := range 100 {
		s.Took(filch.NodeName(fmt.Sprint("n", i%20)))
	}
	s.Took("n19")
	s.Took("n3")
	got := fmt.Sprint(s.From)
	if want := "[{n13 1} {n14 1} {n15 1} {n16 1} {n17 1} {n18 1} {n19 2} {n3 1}]"; len(s.From) != theftsMax || got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
