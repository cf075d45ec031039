package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/kad"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	cli "github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/slots"
)

// partialWait is how long a step of a test with many launchers may take.
const partialWait = 2 * time.Minute

// newPartial starts n launchers of one slot over the real overlay, with lists held at
// limit members. Each joins through one launcher and knows no other address.
func newPartial(t *testing.T, n, limit int) *cluster {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "fp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, base: base, slots: 1, nodes: make([]*rig, n)}
	for i := range n {
		name := fmt.Sprintf("n%d", i+1)
		c.nodes[i] = startWith(t, Config{
			Node:   node.Config{Name: filch.NodeName(name), Instance: testUUID, Capacity: slots.Capacity{Slots: 1, MemBytes: 1 << 30}},
			Dir:    place.Dir{Base: filepath.Join(base, "b"), Instance: filepath.Base(base), Node: name},
			Keeper: exe, Build: "test", Found: i == 0,
		}, func(d *Daemon) {
			card, err := peers.EncodeCard(d.Card())
			if err != nil {
				t.Fatal(err)
			}
			finder := &kad.Finder{}
			h, err := overlay.NewHost(overlay.Config{
				Instance: testUUID, Secret: []byte("a secret of thirty-two bytes...."), Name: filch.NodeName(name),
				Incarnation: d.Incarnation(), Listen: "127.0.0.1:0", Attach: finder.Attach, Detach: finder.Close,
			})
			if err != nil {
				t.Fatal(err)
			}
			m := overlay.NewMesh(h, overlay.MeshConfig{
				Incarnation: d.Incarnation(), Capacity: card, Seed: uint64(i), Finder: finder, ListLimit: limit,
				Events: func(e members.Event) {
					finder.Follow(e)
					d.MemberEvent(e)
				},
			})
			if i > 0 {
				ctx, cancel := context.WithTimeout(t.Context(), partialWait)
				defer cancel()
				if err := m.Join(ctx, c.addr((i-1)/2)); err != nil {
					t.Fatal(err)
				}
			}
			d.Connect(m, m.Self().Incarnation)
		})
	}
	return c
}

// query puts a query to a launcher, with more patience than ask.
func (c *cluster) query(i int, v any, verb string, args ...string) error {
	c.t.Helper()
	client := c.nodes[i].dial()
	defer client.Close()
	b, err := client.Query(partialWait, verb, args...)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// numberOf follows a run to its number.
func numberOf(t *testing.T, r *cli.Run) filch.JobID {
	t.Helper()
	for {
		v, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch v := v.(type) {
		case launcher.Accepted:
			return v.Job
		case launcher.Refused:
			t.Fatalf("refused: %v", v.Err)
		}
	}
}

// Launchers whose lists lack most of the nodes work: lookups find the homes of records,
// and thieves and gangs use the nodes that they have met.
func TestLaunchersWithPartialLists(t *testing.T) {
	n, limit := 64, 16
	if testing.Short() {
		n, limit = 16, 5
	}
	began := time.Now()
	c := newPartial(t, n, limit)
	t.Logf("%d launchers are up after %v", n, time.Since(began).Round(time.Millisecond))
	for _, r := range c.nodes {
		if got := len(r.net.Members()); got > limit {
			t.Fatalf("the list of %s has %d nodes, want at most %d", r.in.Self, got, limit)
		}
	}

	// Without lookups the launchers would wait for each other.
	if !t.Run("lookup", func(t *testing.T) { testPartialLookup(t, c) }) {
		t.FailNow()
	}

	// A gang that needs nodes that no list has yet waits for the list, and says so.
	origin := slices.MinFunc(indices(n), func(a, b int) int { return len(c.nodes[a].nodes.Others()) - len(c.nodes[b].nodes.Others()) })
	known := len(c.nodes[origin].nodes.Others()) + 1
	if known == n {
		t.Fatalf("every launcher knows all %d nodes", n)
	}
	large := c.submit(origin, request(t, int32(n), "sh", "-c", "echo $FILCH_RANK"))
	job := numberOf(t, large)
	pollFor(t, partialWait, "the gang to wait for the list", func() bool {
		var e launcher.Explanation
		err := c.query(origin, &e, wire.VerbExplain, job.String())
		return err == nil && strings.Contains(e.Text, "waits for the list of members, which is not whole yet")
	})

	t.Run("named", func(t *testing.T) { testPartialNamed(t, c, origin) })
	t.Run("submit", func(t *testing.T) { testPartialSubmit(t, c) })
	t.Run("gangs", func(t *testing.T) { testPartialGangs(t, c, limit) })
	t.Run("bags", func(t *testing.T) { testPartialBags(t, c) })
	t.Run("ps", func(t *testing.T) { testPartialPs(t, c, origin, job) })

	for _, r := range c.nodes {
		r.net.SetListLimit(filch.MaxNodes)
	}
	for _, r := range c.nodes {
		pollFor(t, partialWait, "the list of "+string(r.in.Self)+" to be whole", func() bool {
			return r.net.Whole() && len(r.nodes.Others()) == n-1
		})
	}
	o := finish(t, large, nil)
	if got := len(sortedLines(o.out)); got != n || o.ended.Code != 0 {
		t.Errorf("the gang had %d ranks and code %d, want %d and 0", got, o.ended.Code, n)
	}
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// testPartialSubmit runs a job on every launcher: its id comes from a record, which
// most launchers keep elsewhere.
func testPartialSubmit(t *testing.T, c *cluster) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, 4)
	for i := range c.nodes {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			run, err := c.nodes[i].dial().Submit(request(t, 1, "true"))
			if err != nil {
				t.Errorf("on node %d: %v", i, err)
				return
			}
			defer run.Close()
			for {
				switch v, err := run.Next(); v := v.(type) {
				case launcher.Ended:
					if v.Code != 0 {
						t.Errorf("on node %d: got %+v", i, v)
					}
					return
				case launcher.Refused:
					t.Errorf("on node %d: refused: %v", i, v.Err)
					return
				default:
					if err != nil {
						t.Errorf("on node %d: %v", i, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// testPartialNamed asks for a node by a name that no node has, and hears so.
func testPartialNamed(t *testing.T, c *cluster, origin int) {
	r := request(t, 1, "true")
	r.Shape.Only = []filch.NodeName{"n777"}
	run := c.submit(origin, r)
	job := numberOf(t, run)
	pollFor(t, partialWait, "the lookup to end in vain", func() bool {
		var e launcher.Explanation
		err := c.query(origin, &e, wire.VerbExplain, job.String())
		return err == nil && strings.Contains(e.Text, "not whole yet; no node leads to n777")
	})
	run.Close()
}

// testPartialGangs runs gangs that fit among the listed members.
func testPartialGangs(t *testing.T, c *cluster, limit int) {
	for _, i := range []int{0, len(c.nodes) / 2, len(c.nodes) - 1} {
		ranks := int32(limit - 1)
		o := finish(t, c.submit(i, request(t, ranks, "sh", "-c", "echo $FILCH_RANK")), nil)
		if got := len(sortedLines(o.out)); got != int(ranks) || o.ended.Code != 0 {
			t.Errorf("the gang of node %d had %d ranks and code %d, want %d and 0", i, got, o.ended.Code, ranks)
		}
	}
}

// testPartialBags drains bags on several launchers, with the help of thieves.
func testPartialBags(t *testing.T, c *cluster) {
	const total = 60
	order, err := wire.Marshal(&launcher.TaskOrder{Argv: []string{"sleep", "0.2"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{len(c.nodes) - 1, len(c.nodes) / 3} {
		tasks := c.nodes[i].bag(total, append([]byte{launcher.BodyOrder}, order...))
		job := until(t, tasks, launcher.TasksAccepted).Job
		until(t, tasks, launcher.TasksFinished)
		where := map[filch.NodeName]bool{}
		for k := range total {
			var task launcher.Task
			if err := c.query(i, &task, wire.VerbTask, job.String(), fmt.Sprint(k)); err != nil || task.State != "ok" {
				t.Fatalf("task %d of job %d: %+v, %v", k, job, task, err)
			}
			where[task.Node] = true
		}
		t.Logf("%d nodes ran the tasks of the bag of node %d", len(where), i)
		if len(where) < 2 {
			t.Errorf("all tasks of the bag of node %d ran on %v, want thieves", i, where)
		}
	}
}

// testPartialPs asks for all jobs and all nodes, on nodes that do not list them.
func testPartialPs(t *testing.T, c *cluster, origin int, job filch.JobID) {
	n := len(c.nodes)
	for _, i := range []int{(origin + 1) % n, (origin + n/2) % n} {
		pollFor(t, partialWait, "ps to show the job", func() bool {
			var jobs []launcher.JobInfo
			if err := c.query(i, &jobs, wire.VerbPs); err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(jobs, func(j launcher.JobInfo) bool { return j.ID == job })
		})
	}
	pollFor(t, partialWait, "nodes to show every node", func() bool {
		var nodes []wire.NodeInfo
		if err := c.query((origin+1)%n, &nodes, wire.VerbNodes); err != nil {
			t.Fatal(err)
		}
		return len(nodes) == n
	})
}

// testPartialLookup looks every node up from one that lists few of them.
func testPartialLookup(t *testing.T, c *cluster) {
	from := c.nodes[len(c.nodes)-2]
	for _, r := range c.nodes {
		var l wire.LookupInfo
		if err := c.query(len(c.nodes)-2, &l, wire.VerbLookup, string(r.in.Self)); err != nil {
			t.Fatalf("lookup of %s: %v", r.in.Self, err)
		}
		if r != from && (len(l.Path) == 0 || l.Path[len(l.Path)-1].Node != r.in.Self) {
			t.Errorf("the path to %s is %+v", r.in.Self, l.Path)
		}
	}
	var l wire.LookupInfo
	if err := c.query(len(c.nodes)-2, &l, wire.VerbLookup, "job/1"); err != nil || l.Node == "" || len(l.Replicas) == 0 {
		t.Errorf("the home of a record: got %+v, %v", l, err)
	}
}
