package daemon

import (
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	cli "github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/daemon/children"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// fakeRunner is a runner without a process.
type fakeRunner struct {
	conn *wire.Conn
	gone chan struct{}

	mu     sync.Mutex // guards what follows
	starts []launcher.TaskStart
	orders int
}

// crew makes fake runners; each start asks begin what becomes of it.
type crew struct {
	begin func(n int) (*fakeRunner, error)

	mu    sync.Mutex // guards what follows
	count int
}

func (c *crew) start() (*children.Process, error) {
	c.mu.Lock()
	c.count++
	n := c.count
	c.mu.Unlock()
	f, err := c.begin(n)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	f.conn, f.gone = wire.NewConn(theirs), make(chan struct{})
	go f.serve()
	return &children.Process{PID: 1<<30 + n, Link: ours, Wait: func() error { <-f.gone; return nil }}, nil
}

func (c *crew) started() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// serve says hello and notes what it is told, until the link ends.
func (f *fakeRunner) serve() {
	defer close(f.gone)
	defer f.conn.Close()
	hello, err := wire.EncodeHello(wire.Hello{Role: "runner"})
	if err != nil || f.conn.WriteRaw(wire.KindHello, 0, hello) != nil || f.conn.Flush() != nil {
		return
	}
	for {
		frame, err := f.conn.Read()
		if err != nil {
			return
		}
		f.mu.Lock()
		switch frame.Kind {
		case wire.KindTaskOrder:
			f.orders++
		case wire.KindTaskStarts:
			var s []launcher.TaskStart
			if wire.Unmarshal(frame.Body, &s) == nil {
				f.starts = append(f.starts, s...)
			}
		}
		f.mu.Unlock()
	}
}

func (f *fakeRunner) tasks() []launcher.TaskStart {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]launcher.TaskStart(nil), f.starts...)
}

// end tells the ends of all tasks that were started.
func (f *fakeRunner) end() {
	var ends []launcher.TaskEnd
	for _, s := range f.tasks() {
		ends = append(ends, launcher.TaskEnd{Serial: s.Serial})
	}
	_ = f.conn.Send(wire.KindTaskEnds, 0, ends)
}

// fakeRunners are the fake runners of a daemon, in the order of their starts.
type fakeRunners struct {
	mu  sync.Mutex // guards all
	all []*fakeRunner
}

func (fs *fakeRunners) add(int) (*fakeRunner, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.all = append(fs.all, &fakeRunner{})
	return fs.all[len(fs.all)-1], nil
}

func (fs *fakeRunners) list() []*fakeRunner {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.Clone(fs.all)
}

// tasks are the starts that all of them were told.
func (fs *fakeRunners) tasks() []launcher.TaskStart {
	var all []launcher.TaskStart
	for _, f := range fs.list() {
		all = append(all, f.tasks()...)
	}
	return all
}

// end tells the ends of all tasks that were started.
func (fs *fakeRunners) end() {
	for _, f := range fs.list() {
		f.end()
	}
}

// withRunners starts a daemon whose runners are made by begin.
func withRunners(t *testing.T, slots int32, begin func(n int) (*fakeRunner, error)) (*rig, *crew) {
	cfg := testConfig(t)
	cfg.Node.Capacity.Slots = slots
	c := &crew{begin: begin}
	r := startWith(t, cfg, func(d *Daemon) { d.keepers.Port.Runner = c.start })
	return r, c
}

// bag submits tasks with an order.
func (r *rig) bag(total int32, body []byte) *cli.Tasks {
	r.t.Helper()
	if body == nil {
		b, err := wire.Marshal(&launcher.TaskOrder{Argv: []string{"true"}})
		if err != nil {
			r.t.Fatal(err)
		}
		body = append([]byte{launcher.BodyOrder}, b...)
	}
	c := r.dial()
	r.t.Cleanup(func() { c.Close() })
	tasks, err := c.SubmitTasks(&submit.Job{Name: "bag", Total: total, Follow: true, Spec: record.Spec{
		Each: filch.Room{Slots: 1}, Body: body, CrashLimit: record.CrashLimit,
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	return tasks
}

// until waits for a kind of news.
func until(t *testing.T, tasks *cli.Tasks, what launcher.TaskNewsKind) launcher.TaskNews {
	t.Helper()
	got := make(chan launcher.TaskNews, 1)
	go func() {
		for {
			n, err := tasks.Next()
			if err != nil || n.What == what || n.What == launcher.TasksRefused {
				got <- n
				return
			}
		}
	}()
	select {
	case n := <-got:
		if n.What != what {
			t.Fatalf("got %+v", n)
		}
		return n
	case <-time.After(60 * time.Second):
		t.Fatalf("no news of kind %d", what)
	}
	return launcher.TaskNews{}
}

// A bag of which no task can be read fails as a whole: more ends than inputs may
// wait come about in one turn of the loop.
func TestManyTasksThatCannotBeStarted(t *testing.T) {
	r, _ := withRunners(t, 3*inputs.Max, func(int) (*fakeRunner, error) { return nil, errors.New("none") })
	if n := until(t, r.bag(10_000, []byte{launcher.BodyOrder, 0xc1}), launcher.TasksFinished); n.Tally.Failed != 10_000 {
		t.Errorf("got %+v", n)
	}
}

// A cancel ends tasks whose runner is not there yet.
func TestCancelBeforeTheRunnerIsThere(t *testing.T) {
	gate := make(chan struct{})
	fakes := &fakeRunners{}
	r, c := withRunners(t, 4, func(n int) (*fakeRunner, error) { <-gate; return fakes.add(n) })
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	tasks := r.bag(100, nil)
	until(t, tasks, launcher.TasksAccepted)
	poll(t, "a runner to be started", func() bool { return c.started() > 0 })
	r.in.Post(func(t *inputs.Turn) { t.Node.CancelTasks(t.Now, tasks.Job, "", t.Out) })
	if n := until(t, tasks, launcher.TasksFinished); n.Tally.Cancelled != 100 {
		t.Errorf("got %+v", n)
	}
	open()
	if got := fakes.tasks(); len(got) > 0 {
		t.Errorf("%d tasks that were cancelled were started", len(got))
	}
}

// Slots without processors have one runner. The tasks of a runner that vanished are given to the
// next runner, and end once.
func TestRunnerVanishes(t *testing.T) {
	fakes := &fakeRunners{}
	r, _ := withRunners(t, 4, fakes.add)
	tasks := r.bag(4, nil)
	until(t, tasks, launcher.TasksAccepted)
	poll(t, "the tasks to begin", func() bool { return len(fakes.tasks()) == 4 })
	began := fakes.list()
	if len(began) != 1 {
		t.Fatalf("4 tasks have %d runners, want 1", len(began))
	}
	began[0].conn.Close()
	poll(t, "the tasks to begin anew", func() bool { return len(fakes.tasks()) == 8 })
	again := fakes.list()[1].tasks()
	if len(again) != 4 {
		t.Errorf("the next runner has %d tasks, want 4", len(again))
	}
	for _, s := range again {
		if s.Attempt != 2 {
			t.Errorf("got %+v, want attempt 2", s)
		}
	}
	fakes.list()[1].end()
	if n := until(t, tasks, launcher.TasksFinished); n.Tally.OK != 4 {
		t.Errorf("got %+v", n)
	}
}

// Runners that cannot be started use up the tries of their tasks, and then the
// job ends.
func TestNoRunnerCanBeStarted(t *testing.T) {
	r, c := withRunners(t, 4, func(int) (*fakeRunner, error) { return nil, errors.New("no such binary") })
	if n := until(t, r.bag(4, nil), launcher.TasksFinished); n.Tally.Lost != 4 {
		t.Errorf("got %+v", n)
	}
	if n := c.started(); n > 4*3*record.CrashLimit {
		t.Errorf("%d runners were started", n)
	}
}

// A node removes the oldest output beyond its quota, and says so to whoever asks.
func TestOldOutputIsRemoved(t *testing.T) {
	cfg := testConfig(t)
	cfg.OutputBytes = 1
	dir := proc.Place{Dir: cfg.Dir.Path()}.OutputDir(5)
	s := output.NewSegments(dir, 1)
	if err := errors.Join(s.Add(output.Printed{Stream: 1, Data: []byte("old")}), s.Close()); err != nil {
		t.Fatal(err)
	}
	r := start(t, cfg)
	poll(t, "old output to go", func() bool { return output.GoneSegments(dir) > 0 })
	args := []string{"n1", "5", wire.OutputTasks, "", "", "1000"}
	v, err := r.queries.Answer(wire.Query{Verb: wire.VerbOutput, Args: args}, true)
	if c, ok := v.(*wire.OutputChunk); err != nil || !ok || c.Gone == 0 || len(c.Pieces) > 0 || !c.End {
		t.Errorf("got %+v, %v", v, err)
	}
}

// A query for output that begins with a rest is answered after the rest, which never
// exceeds the wait of the query.
func TestOutputQueryRests(t *testing.T) {
	cfg := testConfig(t)
	s := output.NewSegments(proc.Place{Dir: cfg.Dir.Path()}.OutputDir(5), 1)
	if err := errors.Join(s.Add(output.Printed{Stream: 1, Data: []byte("text")}), s.Close()); err != nil {
		t.Fatal(err)
	}
	r := start(t, cfg)
	for _, c := range []struct {
		wait, rest string
		least      time.Duration
	}{{"1m", "300ms", 300 * time.Millisecond}, {"200ms", "1h", 200 * time.Millisecond}} {
		began := time.Now()
		v, err := r.queries.Answer(wire.Query{Verb: wire.VerbOutput, Args: []string{"n1", "5", wire.OutputTasks, "", "", "1000", c.wait, "", c.rest}}, true)
		if chunk, ok := v.(*wire.OutputChunk); err != nil || !ok || len(chunk.Pieces) != 1 {
			t.Errorf("rest %s: got %+v, %v, want the text", c.rest, v, err)
		}
		if took := time.Since(began); took < c.least {
			t.Errorf("rest %s, wait %s: answered after %v, want %v at least", c.rest, c.wait, took, c.least)
		}
	}
}
