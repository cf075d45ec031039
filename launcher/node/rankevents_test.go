package node_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
)

// A node tells the stages of its ranks once each: begin, wire-up, ends. A launcher that comes
// back does not know when ranks began that run since before, and does not tell their begin.
func TestANodeTellsTheStagesOfItsRanksOnce(t *testing.T) {
	w := newNet(t, 2, 4)
	var told []string
	w.onEvents = func(list []events.Event) {
		for _, e := range list {
			if e.Kind == events.RanksStarted || e.Kind == events.RanksWired {
				told = append(told, fmt.Sprintf("%s of job %d, try %d: %d", e.Kind, e.Job, e.Try, e.Count))
			} else if e.Kind == events.RankEnded {
				told = append(told, fmt.Sprintf("%s of job %d, try %d", e.Kind, e.Job, e.Try))
			}
		}
	}
	w.behave = func(k *keeper) {
		k.at = 5 * sec
		w.After(200*ms, func() { k.say(launcher.RanksWired{Ident: k.start.Launch.Ident, Took: 150 * ms}) })
	}
	id := w.submit("n1", 1, gang(8))
	w.run(sec)
	started, wired := fmt.Sprintf("ranks-started of job %d, try 1: 4", id), fmt.Sprintf("ranks-wired of job %d, try 1: 150000", id)
	if want := []string{started, started, wired, wired}; !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
	told = nil
	w.crash("n2", false)
	w.run(500 * ms)
	w.restart("n2")
	w.run(sec)
	if len(told) > 0 {
		t.Errorf("after a restart: %q", told)
	}
	w.run(10 * sec)
	ended := fmt.Sprintf("rank-ended of job %d, try 1", id)
	if want := slices.Repeat([]string{ended}, 8); !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
}
