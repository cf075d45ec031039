package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/mem"
	"github.com/filch-hpc/filch/launcher"
	cli "github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/slots"
)

// cluster is several daemons over a network in memory, with real keepers.
type cluster struct {
	t      *testing.T
	base   string
	slots  int32
	fabric *mem.Fabric
	nodes  []*rig
}

func newCluster(t *testing.T, n int, slots int32) *cluster {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "fc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	c := &cluster{t: t, base: base, slots: slots, fabric: mem.NewFabric(), nodes: make([]*rig, n)}
	for i := range n {
		c.up(i)
	}
	for _, r := range c.nodes {
		poll(t, "the nodes to know each other", func() bool { return len(r.nodes.Others()) == n-1 })
	}
	return c
}

// up starts launcher i, for the first time or again.
func (c *cluster) up(i int) {
	c.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	name := fmt.Sprintf("n%d", i+1)
	c.nodes[i] = startWith(c.t, Config{
		Node: node.Config{
			Name: filch.NodeName(name), Instance: testUUID, Capacity: slots.Capacity{Slots: c.slots, MemBytes: 1 << 30},
			Group: fmt.Sprintf("slurm-%d", i%2),
		},
		Dir:    place.Dir{Base: filepath.Join(c.base, "b"), Instance: filepath.Base(c.base), Node: name},
		Keeper: exe, Build: "test", Found: i == 0,
	}, func(d *Daemon) {
		card, err := peers.EncodeCard(d.Card())
		if err != nil {
			c.t.Fatal(err)
		}
		node := c.fabric.Node(filch.NodeName(name), d.Incarnation())
		m := overlay.NewMesh(node, overlay.MeshConfig{Incarnation: d.Incarnation(), Capacity: card, Seed: 1, Events: d.MemberEvent})
		for k, r := range c.nodes {
			if r != nil && k != i && r.in.Context().Err() == nil {
				ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
				defer cancel()
				if err := m.Join(ctx, r.net.Addr()); err != nil {
					c.t.Fatal(err)
				}
				break
			}
		}
		d.Connect(m, m.Self().Incarnation)
	})
}

// addr of node i in the fabric.
func (c *cluster) addr(i int) string { return c.nodes[i].net.Addr() }

// wide is a request that uses all slots of the cluster.
func (c *cluster) wide(argv ...string) *launcher.Request {
	c.t.Helper()
	return request(c.t, int32(len(c.nodes))*c.slots, argv...)
}

func (c *cluster) submit(i int, r *launcher.Request) *cli.Run {
	c.t.Helper()
	run, err := c.nodes[i].dial().Submit(r)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(run.Close)
	return run
}

func sortedLines(b []byte) []string {
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	slices.Sort(lines)
	return lines
}

func TestClusterRunsOnAllNodes(t *testing.T) {
	c := newCluster(t, 3, 2)
	o := finish(t, c.submit(1, c.wide("sh", "-c", "echo $FILCH_RANK; exit $FILCH_RANK")), nil)
	if got, want := strings.Join(sortedLines(o.out), " "), "0 1 2 3 4 5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if o.ended.Code < 1 || o.ended.Code > 5 {
		t.Errorf("got code %d, want that of a rank", o.ended.Code)
	}
	for _, r := range c.nodes {
		poll(t, "nothing to be left", func() bool { s := r.stats(); return s.Routes == 0 })
	}
}

func TestClusterKnowsItsAllocations(t *testing.T) {
	c := newCluster(t, 3, 1)
	for _, r := range c.nodes {
		for i := range c.nodes {
			m, _ := r.nodes.Find(filch.NodeName(fmt.Sprintf("n%d", i+1)))
			if want := fmt.Sprintf("slurm-%d", i%2); m.Group != want {
				t.Errorf("%s takes n%d for a node of %q, want %q", r.in.Self, i+1, m.Group, want)
			}
		}
	}
}

func TestClusterCarriesStdinToAllNodes(t *testing.T) {
	c := newCluster(t, 3, 2)
	run := c.submit(0, c.wide("sh", "-c", "cat | wc -c"))
	text := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10) // 1 MiB
	var welcome, sent uint64
	done := false
	o := finish(t, run, func(v any) {
		if p, ok := v.(wire.Place); ok && p.Offset != wire.NoStdin {
			welcome = p.Offset
		}
		for sent < welcome && !done {
			n := min(welcome-sent, wire.MaxChunk, uint64(len(text))-sent)
			done = sent+n == uint64(len(text))
			if err := run.Stdin(text[sent:sent+n], done); err != nil {
				t.Fatal(err)
			}
			sent += n
		}
	})
	if got, want := strings.Fields(string(o.out)), slices.Repeat([]string{"1048576"}, 6); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestClusterFloodFromAllNodes(t *testing.T) {
	c := newCluster(t, 3, 1)
	o := finish(t, c.submit(0, c.wide("sh", "-c", "head -c 16000000 /dev/zero | tr '\\0' '\\n'")), nil)
	if o.bytes != 3*16000000 || o.ended.Code != 0 {
		t.Errorf("got %d bytes and code %d", o.bytes, o.ended.Code)
	}
}

// Frames that a broken link swallows are asked for again.
func TestClusterLosesNoOutputWithALink(t *testing.T) {
	c := newCluster(t, 3, 1)
	run := c.submit(0, c.wide("sh", "-c", "i=0; while [ $i -lt 300 ]; do echo $FILCH_RANK $i; i=$((i+1)); sleep 0.005; done"))
	cut, lines := false, 0
	o := finish(t, run, func(v any) {
		if out, ok := v.(wire.Output); ok {
			lines += bytes.Count(out.Data, []byte("\n"))
		}
		if lines > 100 && !cut {
			cut = true
			c.fabric.Cut(c.addr(0), c.addr(2))
			time.AfterFunc(300*time.Millisecond, func() { c.fabric.Heal(c.addr(0), c.addr(2)) })
		}
	})
	var want []string
	for r := range 3 {
		for i := range 300 {
			want = append(want, fmt.Sprintf("%d %d", r, i))
		}
	}
	slices.Sort(want)
	if got := sortedLines(o.out); !slices.Equal(got, want) || o.ended.Code != 0 {
		t.Errorf("got %d lines and code %d, want %d lines once each", len(got), o.ended.Code, len(want))
	}
}

func TestClusterEndsWithAKeeper(t *testing.T) {
	c := newCluster(t, 3, 1)
	run := c.submit(0, c.wide("sh", "-c", "[ $FILCH_RANK = 2 ] && sleep 0.2 && kill -9 $PPID; sleep 994"))
	began := time.Now()
	o := finish(t, run, nil)
	if o.ended.Code == 0 {
		t.Errorf("got %+v", o.ended)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	poll(t, "all ranks to be gone", func() bool { return !runs(t, "sleep\x00994") })
}

func TestClusterCancel(t *testing.T) {
	c := newCluster(t, 3, 1)
	run := c.submit(0, c.wide("sleep", "993"))
	o := finish(t, run, func(v any) {
		if _, ok := v.(launcher.Started); ok {
			if err := run.Cancel(15); err != nil {
				t.Error(err)
			}
		}
	})
	if o.ended.Code != filch.ExitCancelled || o.ended.State != filch.Cancelled {
		t.Errorf("got %+v", o.ended)
	}
	if runs(t, "sleep\x00993") {
		t.Error("a rank outlived the job")
	}
}

// restart ends launcher i as a crash does and starts it again.
func (c *cluster) restart(i int) {
	c.t.Helper()
	c.nodes[i].Stop()
	c.nodes[i].end()
	c.up(i)
}

func testRestart(t *testing.T, who int, exclude ...filch.NodeName) {
	c := newCluster(t, 3, 1)
	ranks := 3 - len(exclude)
	req := request(t, int32(ranks), "sh", "-c", "i=0; while [ $i -lt 100 ]; do echo $FILCH_RANK $i; i=$((i+1)); sleep 0.01; done; exit 7")
	req.Shape.Exclude = exclude
	run := c.submit(0, req)
	lines, did := 0, false
	o := finish(t, run, func(v any) {
		if out, ok := v.(wire.Output); ok {
			lines += bytes.Count(out.Data, []byte("\n"))
		}
		if lines > 30 && !did {
			did = true
			c.restart(who)
		}
	})
	var want []string
	for r := range ranks {
		for i := range 100 {
			want = append(want, fmt.Sprintf("%d %d", r, i))
		}
	}
	slices.Sort(want)
	if got := sortedLines(o.out); !slices.Equal(got, want) || o.ended.Code != 7 {
		t.Errorf("got %d lines and %+v, want %d lines once each and code 7", len(got), o.ended, len(want))
	}
	for _, r := range c.nodes {
		poll(t, "slots to be whole", func() bool {
			v, err := r.queries.Answer(wire.Query{Verb: wire.VerbNodes}, false)
			own, ok := v.([]wire.NodeInfo)
			return err == nil && ok && own[0].Free == 1 && r.stats().Routes == 0
		})
	}
}

func TestClusterSurvivesARestartOfTheOrigin(t *testing.T) { testRestart(t, 0) }
func TestClusterSurvivesARestartOfAnother(t *testing.T)   { testRestart(t, 2) }

// The origin may have no ranks of its job.
func TestClusterSurvivesARestartOfAnOriginWithoutRanks(t *testing.T) { testRestart(t, 0, "n1") }

// TestClusterKeepsOutputOfRanksThatEndMeanwhile shows that output of ranks which end while
// their node has no launcher is not lost: the keeper tells the next launcher all at once.
func TestClusterKeepsOutputOfRanksThatEndMeanwhile(t *testing.T) {
	for i, where := range []string{"origin", "another"} {
		t.Run(where, func(t *testing.T) {
			c := newCluster(t, 2, 1)
			file := func(name string) string { return filepath.Join(c.base, name) }
			run := c.submit(0, c.wide("sh", "-c", "echo $PPID >"+file("keeper")+".$FILCH_NODE; until [ -e "+file("go")+" ]; do sleep 0.01; done; echo rank $FILCH_RANK"))
			untilStarted(t, run)
			keeper := ""
			poll(t, "the rank to begin", func() bool {
				b, _ := os.ReadFile(file("keeper.") + string(c.nodes[i].in.Self))
				keeper = strings.TrimSpace(string(b))
				return strings.HasSuffix(string(b), "\n")
			})
			for _, r := range c.nodes { // else the start of a keeper may hold the lock of the launcher that ends
				poll(t, "a spare keeper", func() bool { return r.stats().Keepers == 2 })
			}
			c.nodes[i].Stop()
			c.nodes[i].end()
			if err := os.WriteFile(file("go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			poll(t, "the rank to end", func() bool {
				b, err := os.ReadFile("/proc/" + keeper + "/task/" + keeper + "/children")
				return err == nil && len(b) == 0
			})
			c.up(i)
			o := finish(t, run, nil)
			if got := strings.Join(sortedLines(o.out), ", "); got != "rank 0, rank 1" || o.ended.Code != 0 {
				t.Errorf("got %q and %+v, want the lines of both ranks and code 0", got, o.ended)
			}
		})
	}
}

// ask puts a query to node i as a client does.
func (c *cluster) ask(i int, v any, verb string, args ...string) error {
	c.t.Helper()
	client := c.nodes[i].dial()
	defer client.Close()
	b, err := client.Query(10*time.Second, verb, args...)
	if err != nil {
		return err
	}
	if _, ok := v.(wire.Packed); ok {
		return wire.Unmarshal(b, v)
	}
	return json.Unmarshal(b, v)
}

func TestClusterAnswersAboutJobsOfOthers(t *testing.T) {
	c := newCluster(t, 3, 1)
	r := c.wide("sh", "-c", "echo said $FILCH_RANK; sleep 0.3; exit 3")
	r.Detach = true
	run := c.submit(0, r)
	var job filch.JobID
	for job == 0 {
		v, err := run.Next()
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := v.(launcher.Accepted); ok {
			job = a.Job
		}
	}
	run.Close()
	var info launcher.JobInfo
	if err := c.ask(2, &info, wire.VerbWait, job.String(), "10s"); err != nil || info.Code == nil || *info.Code != 3 {
		t.Errorf("wait: got %+v, %v", info, err)
	}
	if err := c.ask(1, &info, wire.VerbInfo, job.String()); err != nil || info.Origin != "n1" {
		t.Errorf("info: got %+v, %v", info, err)
	}
	var jobs []launcher.JobInfo
	if err := c.ask(1, &jobs, wire.VerbPs); err != nil || len(jobs) != 1 {
		t.Errorf("ps: got %+v, %v", jobs, err)
	}
	var nodes []wire.NodeInfo
	if err := c.ask(1, &nodes, wire.VerbNodes); err != nil || len(nodes) != 3 || nodes[1].Local != true || nodes[0].Local || nodes[2].State != "up" || nodes[2].Silent {
		t.Errorf("nodes: got %+v, %v", nodes, err)
	}
	said := []byte{}
	for _, node := range []string{"n1", "n2", "n3"} {
		for at, done := "", false; !done; {
			var chunk wire.OutputChunk
			if err := c.ask(2, &chunk, wire.VerbOutput, node, job.String(), wire.OutputRanks, "", at, "1000", "5s"); err != nil {
				t.Fatal(err)
			}
			for _, p := range chunk.Pieces {
				said = append(said, p.Data...)
			}
			at, done = chunk.Next, chunk.Done && chunk.End
		}
	}
	if got := strings.Join(sortedLines(said), ", "); got != "said 0, said 1, said 2" {
		t.Errorf("logs: got %q", got)
	}
	err := c.ask(1, &info, wire.VerbInfo, "999")
	if err == nil || !strings.Contains(err.Error(), "there is no job 999") {
		t.Errorf("a job that is not: got %v", err)
	}
}

// A node that was cut off ends what runs on it, and comes back.
func TestClusterNodeComesBackFromTheDead(t *testing.T) {
	c := newCluster(t, 3, 1)
	run := c.submit(0, c.wide("sleep", "992"))
	began := false
	o := finish(t, run, func(v any) {
		if _, ok := v.(launcher.Started); ok && !began {
			began = true
			c.fabric.Cut(c.addr(2), c.addr(0))
			c.fabric.Cut(c.addr(2), c.addr(1))
		}
	})
	if o.ended.Code != filch.ExitNodeLost {
		t.Errorf("got %+v, want code %d", o.ended, filch.ExitNodeLost)
	}
	var chunk wire.OutputChunk
	if err := c.ask(0, &chunk, wire.VerbOutput, "n3", "1", wire.OutputTasks, "", "", "1000"); err == nil || err.Error() != "node n3 is dead" {
		t.Errorf("a question to a dead node: got %v", err)
	}
	c.fabric.Heal(c.addr(2), c.addr(0))
	c.fabric.Heal(c.addr(2), c.addr(1))
	for _, r := range c.nodes {
		pollFor(t, 30*time.Second, "the node to come back", func() bool {
			for _, m := range r.nodes.List() {
				if m.Standing != 0 {
					return false
				}
			}
			return len(r.nodes.Others()) == 2
		})
	}
	poll(t, "all ranks to be gone", func() bool { return !runs(t, "sleep\x00992") })
	if o := finish(t, c.submit(2, c.wide("true")), nil); o.ended.Code != 0 {
		t.Errorf("afterwards: got %+v", o.ended)
	}
}

// Followers with the same places share one round: the nodes are asked once, and every
// follower gets the same events.
func TestFollowersShareTheirAnswers(t *testing.T) {
	c := newCluster(t, 2, 1)
	args := []string{"5s", ""}
	for _, node := range []string{"n1", "n2"} {
		var chunk wire.EventChunk
		v, err := c.nodes[0].queries.Answer(wire.Query{Verb: wire.VerbEvents, Args: []string{node, "now", "1"}}, true)
		switch v := v.(type) {
		case *wire.EventChunk:
			chunk = *v
		case *wire.Raw:
			err = wire.Unmarshal(*v, &chunk)
		}
		if err != nil || chunk.Next == "" {
			t.Fatalf("the place of %s: got %+v, %v", node, chunk, err)
		}
		args = append(args, node, chunk.Next)
	}
	answers := make(chan *wire.Raw, 7)
	for range cap(answers) {
		go func() {
			v, err := c.nodes[0].queries.Answer(wire.Query{Verb: wire.VerbFollow, Args: args}, true)
			raw, _ := v.(*wire.Raw)
			if err != nil {
				t.Errorf("a follower got %v", err)
			}
			answers <- raw
		}()
	}
	c.nodes[1].in.Watch.Event(events.Event{Kind: events.Note, Reason: "here"})
	first := <-answers
	for range cap(answers) - 1 {
		if a := <-answers; a == nil || first == nil || !bytes.Equal(*a, *first) {
			t.Errorf("two followers got different answers: %v, %v", a, first)
		}
	}
	var parts wire.EventParts
	if first == nil {
		return
	} else if err := wire.Unmarshal(*first, &parts); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range parts.Parts {
		var chunk wire.EventChunk
		if err := wire.Unmarshal(p.Chunk, &chunk); err != nil || p.Err != "" {
			t.Fatalf("got %+v, %v", p, err)
		}
		list, err := events.Decode(chunk.Data)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			found = found || p.Node == "n2" && list[i].Reason == "here"
		}
	}
	if !found {
		t.Errorf("got %+v, without the event of n2", parts)
	}
	for _, bad := range [][]string{{"1s", ""}, {"1s", "", "n1"}, {"1s", "", "n1", "now"}, {"1s", "", "n1", ""}} {
		if _, err := c.nodes[0].queries.Answer(wire.Query{Verb: wire.VerbFollow, Args: bad}, true); err == nil {
			t.Errorf("%q is answered", bad)
		}
	}
}
