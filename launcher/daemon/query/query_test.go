package query

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/glance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJoinedPrefersWhoKnowsBest(t *testing.T) {
	zero := int32(0)
	job := func(hop int32, over, recorded bool, origin filch.NodeName) launcher.JobInfo {
		j := launcher.JobInfo{ID: 3, Origin: origin}
		j.Hop, j.Recorded = hop, recorded
		if over {
			j.Code = &zero
		}
		return j
	}
	bag := func(waiting int32, origin filch.NodeName) launcher.JobInfo {
		j := job(0, false, true, origin)
		j.Kind, j.Tasks.Waiting = "bag", waiting
		return j
	}
	for _, c := range []struct {
		name string
		a, b launcher.JobInfo
	}{
		{"later-record", bag(3, "best"), bag(5, "x")},
		{"higher-hop", job(1, false, true, "best"), job(0, true, false, "x")},
		{"ended", job(0, true, true, "best"), job(0, false, false, "x")},
		{"live-owner", job(0, false, false, "best"), job(0, false, true, "x")},
		{"whole-story", job(0, true, true, "best"), job(0, true, false, "x")},
	} {
		for _, list := range [][]launcher.JobInfo{{c.a, c.b}, {c.b, c.a}} {
			if got := glance.Merge(list); len(got) != 1 || got[0].Origin != "best" {
				t.Errorf("%s: got %+v", c.name, got)
			}
		}
	}
}

// A list that is too long for an answer lacks the jobs that ended first, and
// none that has not ended.
func TestLongListsLackWhatEndedFirst(t *testing.T) {
	code := int32(0)
	var list []launcher.JobInfo
	for i := range 1000 {
		j := launcher.JobInfo{ID: filch.JobID(i + 1), Name: "a job", Submit: int64(i + 1), Code: &code}
		if i%100 == 0 {
			j.Code = nil
		}
		list = append(list, j)
	}
	all, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	if got := fitJobs(list, len(all)); len(got) != 1000 {
		t.Errorf("%d of 1000 jobs are in a list that has room for all", len(got))
	}
	got := fitJobs(list, len(all)/2)
	some, err := json.Marshal(got)
	if err != nil || len(some) > len(all)/2+10*len(all)/1000 || len(got) < 480 {
		t.Errorf("%d jobs in %d bytes, half is %d (%v)", len(got), len(some), len(all)/2, err)
	}
	live := 0
	for i, j := range got {
		if j.Code == nil {
			live++
		} else if j.ID < 480 {
			t.Errorf("job %d is there, and newer ones are not", j.ID)
		}
		if i > 0 && j.ID <= got[i-1].ID {
			t.Errorf("job %d comes behind job %d", j.ID, got[i-1].ID)
		}
	}
	if live != 10 {
		t.Errorf("%d of 10 jobs that have not ended are there", live)
	}
}
