package policy

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

func TestUrgeEnds(t *testing.T) {
	var u Urge
	u.Heard(0, "n2")
	if u.StandsBack(0) {
		t.Error("tasks stand back for tasks of their own class")
	}
	u.Heard(-1, "n3")
	u.Heard(0, "n4")
	if !u.StandsBack(0) || u.StandsBack(-1) || u.From() != "n3" {
		t.Errorf("%+v: tasks of class 0 are to stand back for the tasks of n3", u)
	}
	const nodes = 63 // 8 is the root
	u.Failed(8, nodes)
	u.Succeeded()
	for range urgeAsks {
		if !u.StandsBack(0) {
			t.Fatal("the news were dropped too early")
		}
		u.Failed(8, nodes)
	}
	if u.StandsBack(0) {
		t.Error("tasks stand back for ever")
	}
}

func TestCallsNeedTwoClasses(t *testing.T) {
	var k Calls
	k.Heard(0)
	for s := range 100 {
		if k.Due(time.Duration(s)*time.Second, 0) || k.Next() != 0 {
			t.Fatal("news of the only class")
		}
	}
	if !k.Due(100*time.Second, -1) {
		t.Fatal("no news of a better class")
	}
	rounds := 0
	for now := 100 * time.Second; now < 1100*time.Second; now += 10 * time.Millisecond {
		if k.Due(now, -1) {
			rounds++
		}
	}
	if rounds < 30 || rounds > 45 {
		t.Errorf("%d rounds in 1,000 s, want one in %v at last", rounds, PollRest)
	}
	k.Idle()
	if k.Next() != 0 {
		t.Error("a round is planned without tasks")
	}
}

func TestSurveyPrefersTheBetterClass(t *testing.T) {
	var s Survey
	s.Begin([]filch.NodeName{"a", "b", "c", "d"}, false)
	for _, x := range []struct {
		from  filch.NodeName
		load  int64
		class int32
		best  filch.NodeName
	}{{"a", 100, 0, "a"}, {"b", 0, -5, "a"}, {"c", 2, -1, "c"}, {"d", 1, -1, "c"}} {
		if s.Answer(x.from, s.Round, x.load, x.class); s.Best != x.best {
			t.Errorf("after %s the best is %s, want %s", x.from, s.Best, x.best)
		}
	}
}
