package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	cli "github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// A launcher that is started again on its disk has all records, and gives no
// id out twice.
func TestRecordsOutliveTheirLauncher(t *testing.T) {
	cfg := testConfig(t)
	r := start(t, cfg)
	if o := r.run(2, "true"); o.ended.Code != 0 {
		t.Fatalf("got %+v", o.ended)
	}
	var first launcher.JobInfo
	poll(t, "the record of the job", func() bool {
		var jobs []launcher.JobInfo
		r.query(t, &jobs, wire.VerbPs)
		for _, j := range jobs {
			first = j
		}
		return first.Recorded && first.Code != nil
	})
	put := dht.Op{Code: dht.OpInsert, Key: "a key", Kind: dht.KindRegister, Value: []byte("a value"), Durable: true}
	if rs := r.ops(t, put); rs[0].Outcome != dht.Done {
		t.Fatalf("got %+v", rs)
	}
	r.Stop()
	r.end()

	r = start(t, cfg)
	poll(t, "the store to be back", func() bool {
		rs := r.ops(t, dht.Op{Code: dht.OpLookup, Key: "a key", Consistent: true}, put)
		return rs[0].Outcome == dht.Done && string(rs[0].Value) == "a value" && rs[1].Outcome == dht.Exists
	})
	var again launcher.JobInfo
	r.query(t, &again, wire.VerbInfo, first.ID.String())
	if again.State != "ok" || again.Ranks != 2 || again.Tasks.OK != 2 || len(again.Nodes) != 1 {
		t.Errorf("got %+v, want %+v", again, first)
	}
	c, err := r.dial().Submit(request(t, 1, "true"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if finish(t, c, nil); c.Job <= first.ID {
		t.Errorf("job %d came after job %d", c.Job, first.ID)
	}
}

// A lone node is its own roster.
func TestALoneNodeIsItsOwnRoster(t *testing.T) {
	r := start(t, testConfig(t))
	var list []wire.RosterInfo
	poll(t, "the roster", func() bool {
		r.query(t, &list, wire.VerbRoster)
		return len(list) == 1 && list[0].Known && list[0].Here.Homes == list[0].Shards
	})
	own := list[0]
	if own.Node != "n1" || len(own.Seats) != 1 || !own.Majority || own.Short != 0 || len(own.Lost) != 0 || own.Here.QuotaBytes == 0 {
		t.Errorf("got %+v", own)
	}
	var lost wire.RecoverInfo
	r.query(t, &lost, wire.VerbRecover)
	if lost.Shards != 0 {
		t.Errorf("%d shards were given up, none was lost", lost.Shards)
	}
}

func (r *rig) query(t *testing.T, v any, verb string, args ...string) {
	t.Helper()
	c := r.dial()
	defer c.Close()
	b, err := c.Query(10*time.Second, verb, args...)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) ops(t *testing.T, ops ...dht.Op) []dht.Result {
	t.Helper()
	c := r.dial()
	defer c.Close()
	rs, err := c.Store(5*time.Second, ops...)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// A node that leaves cancels no job that goes on elsewhere: another takes over a
// detached one, and its ranks notice nothing.
func TestLeavingNodeHandsItsJobsOver(t *testing.T) {
	c := newCluster(t, 4, 1)
	var list []wire.RosterInfo
	poll(t, "replicas of all records", func() bool {
		c.nodes[0].query(t, &list, wire.VerbRoster, wire.OnlyHere)
		return len(list[0].Members) == 4 && list[0].Short == 0 && len(list[0].Seats) == 3
	})
	flag := filepath.Join(t.TempDir(), "go")
	there := request(t, 2, "sh", "-c", "until [ -e "+flag+" ]; do sleep 0.02; done")
	there.Detach, there.Shape.Only = true, []filch.NodeName{"n2", "n3"}
	here := request(t, 2, "sleep", "60")
	here.Detach, here.Shape.Only = true, []filch.NodeName{"n1", "n4"}
	accepted := func(r *launcher.Request) filch.JobID {
		run := c.submit(0, r)
		for {
			event, err := run.Next()
			if err != nil {
				t.Fatal(err)
			}
			if a, ok := event.(launcher.Accepted); ok {
				return a.Job
			}
		}
	}
	goes, ends := accepted(there), accepted(here)
	var info launcher.JobInfo
	about := func(job filch.JobID) *launcher.JobInfo {
		c.nodes[3].query(t, &info, wire.VerbInfo, job.String())
		return &info
	}
	poll(t, "the jobs to run", func() bool { return about(goes).Tasks.Running == 2 && about(ends).Tasks.Running == 2 })
	c.nodes[0].query(t, new(struct{}), wire.VerbDown, "", "1s", "node")
	pollFor(t, 30*time.Second, "another to take the job over", func() bool { return about(goes).Origin != "n1" })
	if info.Code != nil || info.Attempt != 1 {
		t.Errorf("got %+v, want that it runs", info)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pollFor(t, 30*time.Second, "the job to end", func() bool { return about(goes).Code != nil })
	if info.State != "ok" || info.Tasks.OK != 2 {
		t.Errorf("got %+v, want that both ranks ended well", info)
	}
	if about(ends); info.State != "cancelled" {
		t.Errorf("got %+v, want that the job with a rank on the node was cancelled", info)
	}
}

// Who waits for the end of a job hears of it also when the home of what may be
// its records has just died.
func TestWaitOutlivesTheHomeOfRecords(t *testing.T) {
	c := newCluster(t, 4, 1)
	var list []wire.RosterInfo
	poll(t, "replicas of all records", func() bool {
		c.nodes[3].query(t, &list, wire.VerbRoster, wire.OnlyHere)
		return len(list[0].Members) == 4 && list[0].Short == 0 && list[0].Learning == 0 && len(list[0].Seats) == 3
	})
	var jobs []filch.JobID
	for range 12 {
		r := request(t, 1, "true")
		r.Detach, r.Shape.Only = true, []filch.NodeName{"n2"}
		run := c.submit(1, r)
		event, err := run.Next()
		if a, ok := event.(launcher.Accepted); ok {
			jobs = append(jobs, a.Job)
		} else {
			t.Fatalf("got %+v, %v", event, err)
		}
	}
	c.nodes[0].Stop()
	c.nodes[0].end()
	var all sync.WaitGroup
	for _, job := range jobs {
		all.Go(func() {
			client, err := cli.DialDir(c.nodes[3].cfg.Dir, "test")
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			b, err := client.Query(time.Minute, wire.VerbWait, job.String(), "40s")
			var info launcher.JobInfo
			if err == nil {
				err = json.Unmarshal(b, &info)
			}
			if err != nil || info.Code == nil || *info.Code != 0 {
				t.Errorf("job %d: got %+v, %v", job, info, err)
			}
		})
	}
	all.Wait()
}
