//go:build root

package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/client"
)

// The clients' load.
const (
	clients  = 10
	hotKeys  = 12
	thinking = 4 * time.Millisecond
	opWait   = 3 * time.Second
)

// deed is an operation as a client meant it, in values: each write has a value
// that is written once, so that a version stands for a value.
type deed struct {
	code  dht.OpCode
	key   string
	old   string // OpSwap: what it expects to find
	value string
}

// answer is what came of it. With unknown it may have happened or not.
type answer struct {
	outcome dht.Outcome
	value   string // what was found
	unknown bool
}

// history is what all clients saw.
type history struct {
	mu      sync.Mutex // guards what follows
	ops     []porcupine.Operation
	unknown int
	refused int
	began   time.Time
}

func (h *history) add(id int, d deed, a answer, from, to time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := porcupine.Operation{ClientId: id, Input: d, Output: a, Call: int64(from.Sub(h.began)), Return: int64(to.Sub(h.began))}
	if a.unknown {
		h.unknown++
		o.Return = int64(time.Hour) // it may still happen
	}
	h.ops = append(h.ops, o)
}

// len is how many operations are known.
func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// model is one record: absent, or a value.
var model = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range all {
			k := o.Input.(deed).key
			byKey[k] = append(byKey[k], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) { return step(state.(string), in.(deed), out.(answer)) },
	Equal: func(a, b any) bool {
		return a == b
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

// step says whether an answer fits a state, and what the state is then. "" is
// no record.
func step(state string, d deed, a answer) (bool, any) {
	switch d.code {
	case dht.OpLookup:
		return a.unknown || a.value == state, state
	case dht.OpInsert:
		if state != "" {
			return a.unknown || a.outcome == dht.Exists && a.value == state, state
		}
		return a.unknown || a.outcome == dht.Done, d.value
	case dht.OpSwap:
		if state != d.old {
			return a.unknown || a.outcome == dht.Mismatch && a.value == state || a.outcome == dht.Absent && state == "", state
		}
		return a.unknown || a.outcome == dht.Done, d.value
	case dht.OpRemove:
		if state == "" {
			return a.unknown || a.outcome == dht.Absent, state
		}
		return a.unknown || a.outcome == dht.Done, ""
	}
	return false, state
}

// user is one client: it stays with a launcher until that fails it.
type user struct {
	c    *cluster
	id   int
	rand *rand.Rand
	link *client.Client
	seen map[string]dht.Result // of each key, the last lookup
	n    int
}

func newUser(c *cluster, id int) *user {
	return &user{c: c, id: id, rand: rand.New(rand.NewPCG(7, uint64(id))), seen: map[string]dht.Result{}}
}

// do does one operation wherever a launcher answers; false says that nothing
// was asked of anybody.
func (u *user) do(op dht.Op) (r dht.Result, asked bool) {
	if u.link == nil {
		l, err := u.c.dial(u.rand.IntN(len(u.c.Hosts)))
		if err != nil {
			return r, false
		}
		u.link = l
	}
	rs, err := u.link.Store(opWait, op)
	if err != nil {
		u.link.Close()
		u.link = nil
		return dht.Result{Outcome: dht.Unknown}, true
	}
	return rs[0], true
}

// load uses the store until the end.
func (u *user) load(h *history, end *until) {
	for !end.over() {
		d, op := u.draw()
		from := time.Now()
		r, asked := u.do(op)
		switch {
		case !asked:
		case r.Outcome == dht.Unavailable: // not carried out
			h.mu.Lock()
			h.refused++
			h.mu.Unlock()
		default:
			a := answer{outcome: r.Outcome, value: string(r.Value), unknown: r.Outcome == dht.Unknown}
			if d.code == dht.OpLookup && r.Outcome == dht.Absent {
				a.value = ""
			}
			h.add(u.id, d, a, from, time.Now())
			u.learn(d, r)
		}
		wait := time.NewTimer(thinking)
		select {
		case <-wait.C:
		case <-end.done:
			wait.Stop()
		}
	}
	if u.link != nil {
		u.link.Close()
	}
}

// learn keeps what a swap can begin from.
func (u *user) learn(d deed, r dht.Result) {
	switch {
	case r.Outcome == dht.Done && d.code == dht.OpLookup, r.Outcome == dht.Mismatch, r.Outcome == dht.Exists:
		u.seen[d.key] = r
	default:
		delete(u.seen, d.key)
	}
}

// draw makes up the next operation.
func (u *user) draw() (deed, dht.Op) {
	u.n++
	key := fmt.Sprintf("fault/%d", u.rand.IntN(hotKeys))
	value := fmt.Sprintf("%d.%d", u.id, u.n)
	d := deed{key: key, value: value}
	op := dht.Op{Key: dht.Key(key), Kind: dht.KindRegister, Value: []byte(value)}
	seen, known := u.seen[key]
	switch n := u.rand.IntN(20); {
	case n < 1:
		d.code = dht.OpRemove
	case n < 5:
		d.code = dht.OpInsert
	case n < 13 && known:
		d.code, d.old, op.Expect = dht.OpSwap, string(seen.Value), seen.Version
	default:
		d.code, op.Consistent = dht.OpLookup, true
	}
	op.Durable = u.n%3 == 0
	if op.Code = d.code; d.code == dht.OpLookup || d.code == dht.OpRemove {
		op.Value, d.value = nil, ""
	}
	return d, op
}

// check holds the history against the model.
func (h *history) check(t *testing.T) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(model, h.ops, 2*time.Minute)
	t.Logf("figure: %d operations of %d clients, %d with an unknown end, %d refused: %s", len(h.ops), clients, h.unknown, h.refused, result)
	if result != porcupine.Ok {
		if path := t.TempDir() + "/history.html"; porcupine.VisualizePath(model, info, path) == nil {
			t.Logf("drawn in %s", path)
		}
		t.Errorf("the history is not one order of events: %s", result)
	}
}

// prober writes to many keys all the time, so that it is known for how long
// each was not served.
type prober struct {
	u    *user
	mu   sync.Mutex // guards last
	last []time.Time
}

const probes = 64

func newProber(c *cluster) *prober {
	return &prober{u: newUser(c, 1000), last: make([]time.Time, probes)}
}

func (p *prober) run(end *until) {
	versions := make([]dht.Version, probes)
	for n := 0; !end.over(); n++ {
		ops := make([]dht.Op, probes)
		for i := range ops {
			ops[i] = dht.Op{Code: dht.OpSwap, Kind: dht.KindRegister, Key: dht.Key(fmt.Sprintf("probe/%d", i)), Value: fmt.Append(nil, n), Expect: versions[i]}
		}
		if p.u.link == nil {
			l, err := p.u.c.dial(p.u.rand.IntN(len(p.u.c.Hosts)))
			if err != nil {
				continue
			}
			p.u.link = l
		}
		// A short wait: what is not served yet must not hold up the rest.
		began := time.Now()
		rs, err := p.u.link.Store(250*time.Millisecond, ops...)
		if err != nil {
			p.u.link.Close()
			p.u.link = nil
			continue
		}
		served := 0
		p.mu.Lock()
		for i, r := range rs {
			if r.Outcome == dht.Done || r.Outcome == dht.Mismatch { // with what a write has done that was not answered
				p.last[i], versions[i] = began, r.Version
				served++
			}
		}
		p.mu.Unlock()
		if served == 0 { // this launcher is cut off, or as good as dead
			p.u.link.Close()
			p.u.link = nil
		}
		pause()
	}
	if p.u.link != nil {
		p.u.link.Close()
	}
}

// gaps waits until every key was served after a fault, and says for how long
// those were not that it hit: that were not served as soon as any was. If all
// were, it says how soon.
func (p *prober) gaps(t *testing.T, since time.Time, limit time.Duration) []time.Duration {
	t.Helper()
	first := make([]time.Time, probes)
	for end := time.Now().Add(limit); time.Now().Before(end); pause() {
		open := 0
		p.mu.Lock()
		for i, at := range p.last {
			if first[i].IsZero() && at.After(since) {
				first[i] = at
			}
			if first[i].IsZero() {
				open++
			}
		}
		p.mu.Unlock()
		if open > 0 {
			continue
		}
		soonest := slices.MinFunc(first, time.Time.Compare)
		var all []time.Duration
		for _, at := range first {
			if at.After(soonest) {
				all = append(all, at.Sub(since))
			}
		}
		if len(all) == 0 {
			all = append(all, soonest.Sub(since))
		}
		return all
	}
	t.Errorf("not every key was served again within %v", limit)
	return nil
}

// seconds prints durations.
func seconds(all []time.Duration) string {
	var words []string
	for _, d := range all {
		words = append(words, fmt.Sprintf("%.1f", d.Seconds()))
	}
	return strings.Join(words, " ")
}
