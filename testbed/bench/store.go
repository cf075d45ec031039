package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// deed is what a store is asked to do.
type deed uint8

const (
	opInsert deed = iota
	opLookup
	opConfirm // a consistent lookup
	opSwap    // a compare-and-swap that succeeds
)

func (d deed) String() string {
	return [...]string{"insert", "lookup", "lookup, consistent", "compare-and-swap"}[d]
}

// storeWish is what is to be measured of stores.
type storeWish struct {
	time   time.Duration // how long each operation, by one and by many
	stores string        // with commas, as what follows
	meshes string
	deeds  string
	quiets map[storage][2]float64 // what each costs without being asked
}

// storage is a store that is up.
type storage interface {
	name() string
	nodes() int
	// dial connects to one of the nodes.
	dial(node int) (storeClient, error)
	// can says whether it has such a thing, and how many go into one call.
	can(d deed) (batch int)
	// cpu is what its processes used so far.
	cpu() time.Duration
	// messages is what its nodes sent each other so far; below 0: not known.
	messages() int64
	close()
}

// storeClient is a connection of one caller. Keys that it swaps are its own and
// were inserted by it.
type storeClient interface {
	do(d deed, keys []string, value []byte) error
	close()
}

// storeFigure is what one deed costs in one store.
type storeFigure struct {
	Store   string
	Nodes   int
	What    string
	Batch   int
	Callers int // of the rate
	PerSec  float64
	// Of one call after the other by one caller, each to another node:
	P50US, P99US float64
	CPUUS        float64 // of all nodes, per operation
	Requests     float64 // between nodes, per operation; below 0: not known
	// Of many callers at once:
	CrowdCPUUS float64
	CrowdP99US float64
	Failed     int64
	Error      string
}

// storeSizes are those of the keys and values: a job's small record.
const (
	valueBytes  = 100
	storeKeys   = 2000 // that lookups find
	storeCrowd  = 16
	aloneMax    = 4000
	quietTime   = 500 * time.Millisecond // in which is measured what a store does without being asked
	storeSettle = 30 * time.Second
)

var deeds = []deed{opInsert, opLookup, opConfirm, opSwap}

// storeRow measures one deed.
func (b *bench) storeRow(s storage, d deed, batch int) storeFigure {
	f := storeFigure{Store: s.name(), Nodes: s.nodes(), What: d.String(), Batch: batch, Callers: storeCrowd, Requests: -1}
	if batch > 1 {
		f.What += fmt.Sprintf(", %d at once", batch)
		f.Callers = storeCrowd / 4
	}
	if err := b.alone(s, d, batch, &f); err != nil {
		f.Error = err.Error()
		return f
	}
	if err := b.crowd(s, d, batch, &f); err != nil {
		f.Error = err.Error()
	}
	return f
}

// serial makes keys that were never used.
var serial atomic.Int64

// keysFor are the keys of the next call.
func keysFor(d deed, batch int, own []string, turn int) []string {
	keys := make([]string, batch)
	for i := range keys {
		switch d {
		case opInsert:
			keys[i] = fmt.Sprintf("bench/new/%d", serial.Add(1))
		case opSwap:
			keys[i] = own[(turn*batch+i)%len(own)]
		default:
			// Far apart, so that they have different homes.
			keys[i] = oldKey((turn*batch*7919 + i*104729) % storeKeys)
		}
	}
	return keys
}

func oldKey(i int) string { return fmt.Sprintf("bench/old/%d", i) }

func valueOf(n int) []byte { return fmt.Appendf(nil, "%0*d", valueBytes, n) }

// caller is one that calls again and again.
type caller struct {
	clients []storeClient // by turns
	own     []string
	turn    int
	took    []time.Duration
}

// newCaller connects to so many nodes, from the first on, and makes the keys
// that it swaps: each client has its own, since it knows their versions.
func newCaller(s storage, first, nodes, batch int, d deed) (*caller, error) {
	c := &caller{}
	for i := range nodes {
		client, err := s.dial((first + i) % s.nodes())
		if err != nil {
			c.close()
			return nil, err
		}
		c.clients = append(c.clients, client)
	}
	if d != opSwap {
		return c, nil
	}
	for range max(batch, 16) {
		c.own = append(c.own, fmt.Sprintf("bench/own/%d", serial.Add(1)))
	}
	for _, client := range c.clients {
		for keys := range slices.Chunk(c.ownOf(client), max(1, s.can(opInsert))) {
			if err := client.do(opInsert, keys, valueOf(0)); err != nil {
				c.close()
				return nil, err
			}
		}
	}
	return c, nil
}

// ownOf are the keys that one of the caller's clients swaps.
func (c *caller) ownOf(client storeClient) []string {
	i := slices.Index(c.clients, client)
	keys := make([]string, len(c.own))
	for j, k := range c.own {
		keys[j] = fmt.Sprint(k, "/", i)
	}
	return keys
}

// call does one call and notes how long it took.
func (c *caller) call(d deed, batch int) error {
	client := c.clients[c.turn%len(c.clients)]
	own := c.own
	if d == opSwap {
		own = c.ownOf(client)
	}
	keys, value := keysFor(d, batch, own, c.turn/len(c.clients)), valueOf(c.turn+1)
	c.turn++
	start := time.Now()
	err := client.do(d, keys, value)
	c.took = append(c.took, time.Since(start))
	return err
}

func (c *caller) close() {
	for _, client := range c.clients {
		client.close()
	}
}

// alone has one caller ask the nodes in turn.
func (b *bench) alone(s storage, d deed, batch int, f *storeFigure) error {
	c, err := newCaller(s, 0, min(s.nodes(), 8), batch, d)
	if err != nil {
		return err
	}
	defer c.close()
	for range len(c.clients) { // warm
		if err := c.call(d, batch); err != nil {
			return err
		}
	}
	c.took = c.took[:0]
	quietCPU, quietMessages := b.quiet(s)
	messages, cpu, start := s.messages(), s.cpu(), time.Now() // to ask for messages costs CPU
	for len(c.took) < aloneMax && (time.Since(start) < b.store.time || len(c.took) < 20) {
		if err := c.call(d, batch); err != nil {
			return err
		}
	}
	passed := time.Since(start)
	time.Sleep(settle)
	n := float64(len(c.took) * batch)
	f.CPUUS = max(0, ((s.cpu()-cpu).Seconds()-quietCPU*time.Since(start).Seconds())*1e6/n)
	if messages >= 0 {
		f.Requests = max(0, (float64(s.messages()-messages)-quietMessages*passed.Seconds())/2/n)
	}
	f.P50US, f.P99US = quantile(c.took, 0.5), quantile(c.took, 0.99)
	return nil
}

// quiet is what a store costs now without being asked: cores, and messages a
// second. It is taken once for each store.
func (b *bench) quiet(s storage) (cores, perSec float64) {
	if q, ok := b.store.quiets[s]; ok {
		return q[0], q[1]
	}
	messages, cpu, start := s.messages(), s.cpu(), time.Now()
	time.Sleep(quietTime)
	passed := time.Since(start).Seconds()
	q := [2]float64{(s.cpu() - cpu).Seconds() / passed, float64(s.messages()-messages) / passed}
	if b.store.quiets == nil {
		b.store.quiets = map[storage][2]float64{}
	}
	b.store.quiets[s] = q
	return q[0], q[1]
}

// crowd has many callers at once, each at a node of its own.
func (b *bench) crowd(s storage, d deed, batch int, f *storeFigure) error {
	callers := make([]*caller, f.Callers)
	for i := range callers {
		c, err := newCaller(s, i, 1, batch, d)
		if err != nil {
			return err
		}
		defer c.close()
		callers[i] = c
	}
	var failed atomic.Int64
	var wait sync.WaitGroup
	var first error
	var once sync.Once
	cpu, start := s.cpu(), time.Now()
	for _, c := range callers {
		wait.Go(func() {
			for time.Since(start) < b.store.time {
				if err := c.call(d, batch); err != nil {
					failed.Add(1)
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	wait.Wait()
	passed := time.Since(start)
	time.Sleep(settle)
	var took []time.Duration
	for _, c := range callers {
		took = append(took, c.took...)
	}
	n := float64((int64(len(took)) - failed.Load()) * int64(batch))
	f.Failed = failed.Load()
	f.PerSec = n / passed.Seconds()
	f.CrowdCPUUS = (s.cpu() - cpu).Seconds() * 1e6 / max(n, 1)
	f.CrowdP99US = quantile(took, 0.99)
	if first != nil {
		return fmt.Errorf("%d of %d callers gave up: %w", f.Failed, len(callers), first)
	}
	return nil
}

func quantile(took []time.Duration, q float64) float64 {
	if len(took) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(took))
	return float64(s[int(q*float64(len(s)-1))].Nanoseconds()) / 1e3
}

// fill inserts what lookups find.
func fill(s storage) error {
	var wait sync.WaitGroup
	errs := make([]error, 8)
	for w := range errs {
		wait.Go(func() {
			c, err := s.dial(w % s.nodes())
			if err != nil {
				errs[w] = err
				return
			}
			defer c.close()
			var keys []string
			for i := w; i < storeKeys; i += len(errs) {
				keys = append(keys, oldKey(i))
			}
			for part := range slices.Chunk(keys, max(1, s.can(opInsert))) {
				if err := c.do(opInsert, part, valueOf(0)); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("cannot fill %s: %w", s.name(), err)
		}
	}
	return nil
}
