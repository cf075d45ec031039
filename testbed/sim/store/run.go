package store

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Run is what became of one seed.
type Run struct {
	Seed       uint64
	Hash       uint64
	Style      string
	Stats      Stats
	Violations []engine.Violation
}

// RunSeed runs a seed to the end and checks what its clients saw.
func RunSeed(seed uint64, trace func(line string)) Run { return runPlan(drawPlan(seed), trace) }

// RunGrowing runs a seed as one in which shards are split.
func RunGrowing(seed uint64, trace func(line string)) Run {
	return runPlan(drawPlan(seed).growing(), trace)
}

// Moments of a run.
const (
	clientsAt = 300 * time.Millisecond
	faultsAt  = 1200 * time.Millisecond
	afterglow = 500 * time.Millisecond // clients go on that long when all is calm
	wholeMax  = 30 * time.Second       // calm, and everything is whole again
	probeMax  = 4 * time.Second        // one lookup then
)

func runPlan(p plan, trace func(line string)) Run {
	w := newWorld(p, trace)
	w.live()
	if w.sound() {
		w.judge()
	}
	w.stats.Events = w.Steps()
	if w.shards() > shardsAtStart {
		w.stats.Splits++
	}
	return Run{Seed: p.seed, Hash: w.Hash(), Style: p.String(), Stats: w.stats, Violations: w.Broken()}
}

// live is the whole of a run but its judgment.
func (w *World) live() {
	p := &w.plan
	w.members.start()
	w.At(0, func() { w.nodes[0].boot(true) })
	for _, n := range w.nodes[1:p.nodes] {
		w.At(w.rng.fault.Between(0, 200*time.Millisecond), func() { n.boot(false) })
	}
	for i := range p.clients {
		c := &client{w: w, index: i}
		w.clients = append(w.clients, c)
		w.At(clientsAt, c.rest)
	}
	w.At(faultsAt, w.faultNext)
	w.At(faultsAt, w.members.reject)
	if p.grows {
		w.joinAll()
	}
	w.Run(faultsAt + p.span)
	w.calm()
	w.Run(w.Now() + afterglow)
	w.rest()
	w.becomeWhole("after all faults were over")
	if w.stats.Bereft+w.stats.RostersLost > 0 {
		return // what was seen until then is judged
	}
	w.Run(w.Now() + lateMax)
	last := w.probe()
	if w.sound() {
		w.checkWatches(last)
		w.checkHomes(last)
	}
	if p.seed%4 == 0 && w.sound() {
		w.restartAll()
	}
}

// lateMax is how long an operation that nobody waits for any more may be under
// way between whole shards: batches are repeated every two seconds.
const lateMax = 2100 * time.Millisecond

// rest lets the clients finish what they began, and no more.
func (w *World) rest() {
	for _, c := range w.clients {
		c.idle = true
	}
	for range 100 {
		if !slices.ContainsFunc(w.clients, func(c *client) bool { return c.asked != nil }) {
			break
		}
		w.Run(w.Now() + 100*time.Millisecond)
	}
}

// becomeWhole waits until every shard has all its replicas, or until it is sure
// that nothing is left of those that have none.
func (w *World) becomeWhole(when string) {
	began := w.Now()
	missing := "nobody runs"
	for w.sound() && w.Now() < began+wholeMax {
		if missing = w.whole(); missing == "" {
			w.stats.Healing = w.Now() - began
			return
		}
		w.Run(w.Now() + 50*time.Millisecond)
	}
	if !w.sound() {
		return
	}
	if w.rosterLost() {
		w.Trace("", "roster lost", "%v", names(w.acceptors()))
		w.stats.RostersLost++
		w.operate()
		return
	}
	if all := w.bereft(); len(all) > 0 && w.wholeBut(all) == "" {
		w.Trace("", "bereft", "%v", all)
		w.stats.Bereft += len(all)
		w.operate()
		return
	}
	w.Fail("not-whole", "%v %s: %s", wholeMax, when, missing)
}

// probe looks every key up that was ever used, through any node; each must be
// answered.
func (w *World) probe() map[dht.Key]*entry {
	last := make(map[dht.Key]*entry)
	if !w.sound() {
		return last
	}
	c := &client{w: w, index: len(w.clients)}
	w.clients = append(w.clients, c)
	w.plan.patienceMin, w.plan.patienceMax = probeMax, probeMax
	for batch := range slices.Chunk(slices.Clone(w.past.keys), 8) {
		var entries []*entry
		for _, key := range batch {
			e := &entry{client: c.index, kind: w.past.byKey[key][0].kind}
			e.op = dht.Op{Code: dht.OpLookup, Key: key, Consistent: true, Durable: w.plan.style == durable}
			entries = append(entries, e)
			last[key] = e
		}
		c.node = nil
		if !c.settleOn() {
			w.Fail("probe", "no node runs")
			return last
		}
		over := false
		c.ask(entries, func() { over = true })
		for end := w.Now() + 4*probeMax; !over && w.Now() < end && w.sound(); {
			w.Run(w.Now() + 20*time.Millisecond)
		}
		for _, e := range entries {
			if w.sound() && (e.open || e.void) {
				w.Fail("probe", "with all faults over: %s", describe(e))
			}
		}
		if !w.sound() {
			break
		}
	}
	w.Run(w.Now() + 500*time.Millisecond)
	return last
}

// restartAll ends every process once all is on disk, and starts them again:
// nothing at all may be missing then.
func (w *World) restartAll() {
	w.Run(w.Now() + time.Second)
	w.Trace("", "restart", "of everybody")
	w.ground.sound = true
	var all []*node
	for _, n := range w.up() {
		if n.disk.Unsynced() > 0 {
			w.Fail("unsynced", "%s has %d entries that were not synced in a second", n.Name, n.disk.Unsynced())
			return
		}
		w.checkImages(n)
		n.disturb()
		n.stop()
		all = append(all, n)
	}
	for _, n := range all {
		life := n.Life()
		w.After(w.rng.fault.Between(10*time.Millisecond, 500*time.Millisecond), func() { w.restart(n, life) })
	}
	w.Run(w.Now() + 600*time.Millisecond)
	w.becomeWhole("after everybody was started again")
	w.probe()
}

// Total is what many runs came to.
type Total struct {
	Seeds int
	Bad   int
	Rules map[string]int
	First uint64 // the first seed that broke a rule
	Stats Stats
}

// Sum adds runs up and writes a line for each of the first that broke a rule,
// with the command that repeats it.
func Sum(out io.Writer, runs []Run) Total {
	t := Total{Seeds: len(runs), Rules: make(map[string]int)}
	for i := range runs {
		r := &runs[i]
		t.Stats.add(&r.Stats)
		if len(r.Violations) == 0 {
			continue
		}
		t.Bad++
		t.Rules[r.Violations[0].Rule]++
		if t.Bad == 1 {
			t.First = r.Seed
		}
		if t.Bad <= linesMax {
			fmt.Fprintf(out, "seed %d: %v\n\trepeat it: %s\n", r.Seed, r.Violations[0], r.Command())
		}
	}
	return t
}

// linesMax bounds how many bad runs are written out.
const linesMax = 10

// Command is the line that repeats a seed with its trace.
func (r *Run) Command() string {
	grow := ""
	if strings.HasSuffix(r.Style, grows) {
		grow = " -grow"
	}
	return fmt.Sprintf("go run ./testbed/sim/store/cmd%s -seed %d -v", grow, r.Seed)
}

func (t *Total) String() string {
	s := &t.Stats
	return fmt.Sprintf("%d seeds, %d broke a rule; %d operations, %d answered, %d unknown; %d faults, %d restarts, %d epochs, shards split in %d seeds, %d shards lost and back, %d lost with all disks, %d rosters, %d records that no disk had; %d plain lookups, %d of them stale; %d histories undecided; %d events, %d messages",
		t.Seeds, t.Bad, s.Asked, s.Done, s.Unknown, s.Faults, s.Restarts, s.Epochs, s.Splits, s.Lost, s.Bereft, s.RostersLost, s.Lacking, s.Plain, s.Stale, s.Undecided, s.Events, s.Messages)
}
