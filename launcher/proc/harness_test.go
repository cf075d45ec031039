package proc_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
)

// patience is how long a test waits for anything.
const patience = 30 * time.Second

// seen is what a launcher has heard of a keeper; a copy.
type seen struct {
	ready   *launcher.KeeperReady
	started *launcher.RanksStarted
	wired   int // times
	adopted *launcher.Adopted
	done    *launcher.KeeperDone
	end     *wire.Place // of the output
	want    wire.Place
	ends    []launcher.RankEnd
	warns   []string
	out     map[string][]byte // "rank.stream"
	offset  uint64
	hellos  int
	gone    bool
}

// boss is the launcher's end of one keeper.
type boss struct {
	t     testing.TB
	k     *proc.Keeper
	conn  *wire.Conn
	place proc.Place
	job   launcher.Start
	stall bool          // give no credit
	mum   chan struct{} // closed: say nothing more on one's own

	mu   sync.Mutex // guards what follows
	s    seen
	peer func(wire.PeerFrame)
}

var jobs struct {
	sync.Mutex
	n filch.JobID
}

// newBoss spawns a keeper in a state folder of its own.
func newBoss(t testing.TB) *boss {
	t.Helper()
	return newBossAt(t, proc.Place{Dir: t.TempDir(), Instance: "quiet-heron", Node: "n3"})
}

func newBossAt(t testing.TB, p proc.Place) *boss {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k, err := proc.Spawn(self, p, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	b := &boss{t: t, k: k, place: p}
	b.serve(k)
	t.Cleanup(b.close)
	return b
}

// serve talks to k from now on.
func (b *boss) serve(k *proc.Keeper) {
	b.k = k
	b.conn = wire.NewConn(k.Link)
	b.s = seen{out: map[string][]byte{}}
	body, _ := wire.EncodeHello(wire.Hello{Role: "launcher"})
	b.conn.WriteRaw(wire.KindHello, 0, body)
	b.conn.Flush()
	b.mum = make(chan struct{})
	go b.listen(b.conn)
	go beat(b.conn, b.mum)
}

// beat says once a second that the launcher lives.
func beat(c *wire.Conn, stop chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if c.Send(wire.KindLease, 0, nil) != nil {
				return
			}
		}
	}
}

func (b *boss) close() {
	if b.job.Launch.Size > 0 {
		b.conn.Send(wire.KindDeed, 0, launcher.Deed{Ident: b.job.Launch.Ident, Kind: launcher.DeedForget})
	}
	b.conn.Close()
	gone := make(chan struct{})
	go func() { b.k.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(patience):
		b.t.Errorf("keeper %d did not leave", b.k.PID)
	}
}

func (b *boss) listen(c *wire.Conn) {
	for {
		f, err := c.Read()
		b.mu.Lock()
		if err != nil {
			b.s.gone = true
			b.mu.Unlock()
			return
		}
		b.hear(f)
		b.mu.Unlock()
	}
}

func (b *boss) hear(f wire.Frame) {
	switch f.Kind {
	case wire.KindOutput:
		o, err := wire.DecodeOutput(f.Body)
		if err != nil {
			b.t.Error(err)
			return
		}
		if o.Offset < b.s.offset {
			return // seen already
		}
		key := fmt.Sprintf("%d.%d", o.Rank, o.Stream)
		b.s.out[key] = append(b.s.out[key], o.Data...)
		b.s.offset = o.Offset + uint64(len(o.Data))
		if !b.stall {
			b.credit(b.s.offset)
		}
	case wire.KindOutputEnd:
		p, _ := wire.DecodePlace(f.Body)
		b.s.end = &p
	case wire.KindStdinWant:
		b.s.want, _ = wire.DecodePlace(f.Body)
	case wire.KindPeerFrame:
		p, _ := wire.DecodePeerFrame(f.Body)
		if b.peer != nil {
			b.peer(p)
		}
	case wire.KindWarn:
		var w wire.Warn
		wire.Unmarshal(f.Body, &w)
		b.s.warns = append(b.s.warns, w.Text)
	case wire.KindRefusal:
	case wire.KindHello:
		b.s.hellos++
	default:
		b.note(f)
	}
}

func (b *boss) note(f wire.Frame) {
	v, err := wire.DecodeKeeper(f.Kind, f.Body)
	if err != nil {
		b.t.Error(err)
	}
	switch v := v.(type) {
	case launcher.KeeperReady:
		b.s.ready = &v
	case launcher.RanksStarted:
		b.s.started = &v
	case launcher.RanksWired:
		b.s.wired++
	case launcher.RanksEnded:
		b.s.ends = append(b.s.ends, v.Ends...)
	case launcher.KeeperDone:
		b.s.done = &v
	case launcher.Adopted:
		b.s.adopted = &v
	}
}

func (b *boss) credit(to uint64) {
	b.conn.WriteRaw(wire.KindCredit, 0, wire.Place{Index: b.job.Index, Offset: to}.Encode())
	b.conn.Flush()
}

// now is what was heard so far.
func (b *boss) now() seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.s
	s.out = map[string][]byte{}
	for k, v := range b.s.out {
		s.out[k] = bytes.Clone(v)
	}
	s.ends = append([]launcher.RankEnd(nil), s.ends...)
	s.warns = append([]string(nil), s.warns...)
	return s
}

// until waits for a condition on what was heard, which it must not keep.
func (b *boss) until(what string, ok func(seen) bool) seen {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		b.mu.Lock()
		fine := ok(b.s)
		b.mu.Unlock()
		if fine {
			return b.now()
		}
		if time.Now().After(deadline) {
			s := b.now()
			b.t.Fatalf("waited %v for %s; ready %+v, started %+v, ends %+v, done %+v, warns %q, out %.300q, gone %v",
				patience, what, s.ready, s.started, s.ends, s.done, s.warns, s.out, s.gone)
		}
		time.Sleep(time.Millisecond)
	}
}

func (b *boss) untilDone() seen {
	b.t.Helper()
	return b.until("KeeperDone", func(s seen) bool { return s.done != nil })
}

// eventually waits for a condition on the world.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// order is a job of n ranks of one program on one node; change it before
// start.
type order struct {
	launcher.Order
	n     int32
	nodes []launcher.NodeRanks
	start launcher.Start
}

func newOrder(n int32, argv ...string) *order {
	o := &order{n: n}
	o.Programs = []launcher.Program{{Argv: argv, Ranks: []launcher.Span{{First: 0, Count: n}}}}
	o.Cwd = "/"
	o.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/root"}
	o.Umask = 0o022
	o.MPI = "auto"
	o.IO.OutRank, o.IO.ErrRank = -1, -1
	o.IO.StdinMode = launcher.StdinNone
	o.nodes = []launcher.NodeRanks{{Node: "n3", Ranks: []launcher.Span{{First: 0, Count: n}}}}
	o.start.Go = true
	return o
}

// startOf makes the Start of o.
func startOf(o *order) (launcher.Start, error) {
	body, err := wire.Marshal(o.Order)
	if err != nil {
		return launcher.Start{}, err
	}
	jobs.Lock()
	jobs.n++
	id := jobs.n
	jobs.Unlock()
	s := o.start
	s.Launch = launcher.Launch{
		Ident: filch.Ident{Instance: "11111111-2222-3333-4444-555555555555", Job: id, Attempt: 1},
		Name:  "test", Origin: "n3", Size: o.n, Nodes: o.nodes, Order: body, KillWait: time.Second,
		Task: o.start.Launch.Task,
	}
	if o.start.Launch.Ident.Job != 0 {
		s.Launch.Ident = o.start.Launch.Ident
	}
	return s, nil
}

// run starts o on b's keeper.
func (b *boss) run(o *order) {
	b.t.Helper()
	var err error
	if b.job, err = startOf(o); err != nil {
		b.t.Fatal(err)
	}
	if err := b.conn.Send(wire.KindStart, 0, b.job); err != nil {
		b.t.Fatal(err)
	}
}

func (b *boss) deed(d launcher.Deed) {
	b.t.Helper()
	d.Ident = b.job.Launch.Ident
	if err := b.conn.Send(wire.KindDeed, 0, d); err != nil {
		b.t.Fatal(err)
	}
}

// forget waits until the keeper is ready for another job, and clears what was
// heard.
func (b *boss) forget() {
	b.t.Helper()
	before := b.now().hellos
	b.deed(launcher.Deed{Kind: launcher.DeedForget})
	b.until("the keeper to be ready again", func(s seen) bool { return s.hellos > before })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.s = seen{out: map[string][]byte{}, hellos: b.s.hellos}
}

// pidsAfter reads the numbers that helpers print after word.
func pidsAfter(s seen, word string) []int {
	var pids []int
	for _, out := range s.out {
		for line := range strings.Lines(string(out)) {
			if rest, ok := strings.CutPrefix(line, word+" "); ok {
				if n, err := strconv.Atoi(strings.TrimSpace(rest)); err == nil {
					pids = append(pids, n)
				}
			}
		}
	}
	return pids
}

// living reports whether a process runs: a zombie does not.
func living(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	rest := b[bytes.LastIndexByte(b, ')')+2:]
	return rest[0] != 'Z' && rest[0] != 'X'
}

func endsIn(v any) int {
	if e, ok := v.(launcher.RanksEnded); ok {
		return len(e.Ends)
	}
	return 0
}

// sharedIdent is one identity for all keepers of a test.
func sharedIdent(t *testing.T) filch.Ident {
	sum := filch.JobID(0)
	for _, c := range t.Name() {
		sum = (sum*31 + filch.JobID(c)) & 0xffffff
	}
	return filch.Ident{Instance: "11111111-2222-3333-4444-555555555555", Job: sum + 1, Attempt: 1}
}
