package records_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node"
	noderecords "github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/records"
)

// instance is shipped Nodes on a network on which nothing goes wrong.
type instance struct {
	*world
	nodes map[filch.NodeName]*process
	names []filch.NodeName
	done  map[filch.JobID]record.Tally
}

type process struct {
	in   *instance
	host engine.Host
	name filch.NodeName
	node *node.Node
	out  launcher.Outbox
}

func newInstance(n int) *instance {
	in := &instance{world: newWorld(n), nodes: map[filch.NodeName]*process{}, done: map[filch.JobID]record.Tally{}}
	in.store = records.New(in.world, noderecords.Kinds())
	for i := range n {
		p := &process{in: in, name: filch.NodeName(fmt.Sprintf("n%d", i+1))}
		in.Add(&p.host, p.name)
		cfg := node.Config{
			Name: p.name, Instance: "test", Incarnation: 1, Seed: uint64(i + 1),
			Capacity: slots.Capacity{Processors: []filch.Processor{{CPUs: []int32{0}}, {CPUs: []int32{1}, Core: 1}}, Slots: 2, MemBytes: 1 << 30},
		}
		p.node = node.New(cfg, in.store.Open(p.name, func() { in.At(in.Now(), p.tick) }))
		p.host.Start(0, p.tick)
		in.nodes[p.name], in.names = p, append(in.names, p.name)
	}
	for _, p := range in.nodes { // in any order: nothing is under way yet
		for _, o := range in.names {
			if o != p.name {
				p.node.Peer(0, node.Peer{Name: o, Incarnation: 1, Standing: filch.Up, Total: filch.Room{Slots: 2}}, &p.out)
			}
		}
	}
	for _, name := range in.names {
		in.nodes[name].act()
	}
	return in
}

func (p *process) input(f func(now time.Duration, out *launcher.Outbox)) {
	f(p.in.Now(), &p.out)
	p.act()
}

func (p *process) tick() { p.input(p.node.Tick) }

func (p *process) act() {
	in := p.in
	for _, s := range p.out.Sends {
		to := in.nodes[s.To]
		p.host.Send(&to.host, func() {
			to.input(func(now time.Duration, out *launcher.Outbox) { to.node.Message(now, p.name, s.Message, out) })
		})
	}
	for _, r := range p.out.Replies {
		if news, ok := r.Event.(launcher.TaskNews); ok && news.What == launcher.TasksFinished {
			in.done[news.Job] = news.Tally
		}
	}
	p.out.Reset()
	p.host.Wake(p.node.Deadline())
}

// TestNodes runs bags of tasks on shipped Nodes that keep their records in memory.
func TestNodes(t *testing.T) {
	sizes := []int{3, 64}
	if os.Getenv("FILCH_PROOF") != "" {
		sizes = append(sizes, 1000)
	}
	for _, n := range sizes {
		t.Run(fmt.Sprintf("nodes=%d", n), func(t *testing.T) {
			began := time.Now()
			in := newInstance(n)
			booted := time.Since(began)
			began = time.Now()
			sleep := binary.BigEndian.AppendUint64([]byte{launcher.BodySleep}, uint64(100*time.Millisecond))
			const bags = 3
			for i := range bags {
				p := in.nodes[in.names[i]]
				p.input(func(now time.Duration, out *launcher.Outbox) {
					p.node.SubmitTasks(now, launcher.ClientID(i+1), submit.Job{
						Name: "bag", Total: int32(10 * n), Follow: true, Spec: record.Spec{Each: filch.Room{Slots: 1}, Body: sleep},
					}, int64(time.Hour)+int64(i), out)
				})
			}
			in.run(t, time.Minute, func() bool { return len(in.done) == bags })
			if len(in.done) != bags {
				t.Fatalf("after %v %d of %d bags have ended", in.Now(), len(in.done), bags)
			}
			for id, tally := range in.done {
				if tally != (record.Tally{OK: int32(10 * n)}) {
					t.Errorf("job %d: got %+v, want %d ok", id, tally, 10*n)
				}
			}
			t.Logf("figure: %d nodes met in %v; %d tasks in %v of theirs and %v of ours, %d events", n, booted.Round(time.Millisecond),
				10*n*bags, in.Now().Round(time.Millisecond), time.Since(began).Round(time.Millisecond), in.Steps())
		})
	}
}

// world is one in which nothing is lost but as drawn.
type world struct {
	*engine.Engine
	store   *records.Store
	down    map[filch.NodeName]bool
	cut     map[filch.NodeName]bool
	try     func() records.Fate
	changes int
}

// way is how long a word takes from one node to another.
const way = 100 * time.Microsecond

// newWorld has an engine that takes so many hosts.
func newWorld(hosts int) *world {
	e := engine.New(engine.Options{Hosts: hosts, Links: engine.Links{LatencyMin: way, LatencyMax: way}})
	return &world{Engine: e, down: map[filch.NodeName]bool{}, cut: map[filch.NodeName]bool{}, try: func() records.Fate { return records.Heard }}
}

func (w *world) Up(n filch.NodeName) bool                { return !w.down[n] }
func (w *world) Reaches(n filch.NodeName) bool           { return !w.cut[n] }
func (w *world) Delay(_, _ filch.NodeName) time.Duration { return way }
func (w *world) Try(filch.NodeName) records.Fate         { return w.try() }
func (w *world) Stored(_ *dht.Op, _, _ []byte)           { w.changes++ }

// run goes on for a while, or until done.
func (w *world) run(t *testing.T, d time.Duration, done func() bool) {
	t.Helper()
	if done() {
		return
	}
	w.RunUntil(w.Now()+d, done)
	for _, v := range w.Broken() {
		t.Fatal(v)
	}
}

// never is for a run that goes on to its end.
func never() bool { return false }
