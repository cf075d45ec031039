package daemon

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/mem"
	"github.com/filch-hpc/filch/launcher"
	cli "github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/proc/keeper"
	"github.com/filch-hpc/filch/launcher/proc/runner"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/slots"
)

// The test binary is the keeper and the runner, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(keeper.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "runner" {
		os.Exit(runner.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "speak" {
		os.Exit(speak(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

const testUUID = "5f0c2a52-4b7e-4b0e-9d0e-1c2d3e4f5a6b"

// rig is a daemon that runs.
type rig struct {
	*Daemon
	t    testing.TB
	cfg  Config
	done chan error
}

func testConfig(t testing.TB) Config {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "fd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Node:   node.Config{Name: "n1", Instance: testUUID, Capacity: slots.Capacity{Slots: 4}},
		Dir:    place.Dir{Base: filepath.Join(base, "b"), Instance: filepath.Base(base), Node: "n1"},
		Keeper: exe, Build: "test", Found: true,
	}
}

func start(t testing.TB, cfg Config) *rig {
	t.Helper()
	return startWith(t, cfg, func(*Daemon) {})
}

// startWith starts a daemon that prepare has been applied to, alone on a network in
// memory unless that has connected it.
func startWith(t testing.TB, cfg Config, prepare func(*Daemon)) *rig {
	t.Helper()
	if cfg.Watch == nil {
		if err := cfg.Dir.Make(); err != nil {
			t.Fatal(err)
		}
		w, err := watch.Open(cfg.Dir.Log(), 0, true)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Watch = w
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	prepare(d)
	if d.net == nil {
		d.Connect(overlay.NewMesh(mem.NewFabric().Node(d.in.Self, d.Incarnation()), overlay.MeshConfig{
			Incarnation: d.Incarnation(), Seed: 1, Events: d.MemberEvent,
		}), d.Incarnation())
	}
	r := &rig{Daemon: d, t: t, cfg: cfg, done: make(chan error, 1)}
	go func() { r.done <- d.Run(context.Background()) }()
	t.Cleanup(func() {
		r.Stop()
		r.end()
		if t.Failed() {
			if b, err := os.ReadFile(cfg.Dir.Log()); err == nil {
				t.Logf("log:\n%s", b[max(0, len(b)-4000):])
			}
			if b, err := os.ReadFile(filepath.Join(cfg.Dir.Path(), "keepers.log")); err == nil {
				t.Logf("keepers:\n%s", b)
			}
		}
		cfg.Watch.Close()
	})
	poll(t, "the launcher to answer", func() bool {
		c, err := cli.DialDir(cfg.Dir, "test")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return r
}

// end waits for Run to return; more than once is harmless.
func (r *rig) end() {
	r.t.Helper()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("run: %v", err)
		}
		r.done <- nil
	case <-time.After(20 * time.Second):
		buf := make([]byte, 1<<20)
		r.t.Fatalf("the daemon did not end:\n%s", buf[:runtime.Stack(buf, true)])
	}
}

func poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	pollFor(t, 10*time.Second, what, ok)
}

func pollFor(t testing.TB, wait time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited for %s", what)
}

func (r *rig) stats() wire.StatsInfo {
	r.t.Helper()
	v, err := r.queries.Answer(wire.Query{Verb: wire.VerbStats}, true)
	s, ok := v.(wire.StatsInfo)
	if err != nil || !ok {
		r.t.Fatalf("stats: got %+v, %v", v, err)
	}
	return s
}

func (r *rig) dial() *cli.Client {
	r.t.Helper()
	c, err := cli.DialDir(r.cfg.Dir, "test")
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// request is a request for n ranks of argv.
func request(t testing.TB, n int32, argv ...string) *launcher.Request {
	t.Helper()
	order, err := wire.Marshal(launcher.Order{
		Programs: []launcher.Program{{Argv: argv, Ranks: []launcher.Span{{Count: n}}}},
		Cwd:      "/", Env: os.Environ(), Umask: 0o22, MPI: "none",
		IO: launcher.IO{OutRank: -1, ErrRank: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &launcher.Request{Name: argv[0], Shape: launcher.Shape{Ranks: n}, Order: order}
}

// outcome is what a run came to.
type outcome struct {
	ended launcher.Ended
	out   []byte
	bytes int
	warns []string
}

// untilStarted follows a run until its ranks run.
func untilStarted(t testing.TB, r *cli.Run) {
	t.Helper()
	for {
		v, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := v.(launcher.Started); ok {
			return
		}
	}
}

// finish follows a run to its end.
func finish(t testing.TB, r *cli.Run, heed func(any)) outcome {
	t.Helper()
	var o outcome
	for {
		v, err := r.Next()
		if err != nil {
			t.Fatalf("after %d bytes: %v", o.bytes, err)
		}
		if heed != nil {
			heed(v)
		}
		switch v := v.(type) {
		case wire.Output:
			o.bytes += len(v.Data)
			if len(o.out) < 1<<20 {
				o.out = append(o.out, v.Data...)
			}
		case wire.Warn:
			o.warns = append(o.warns, v.Text)
		case launcher.Refused:
			t.Fatalf("refused: %v", v.Err)
		case launcher.Ended:
			o.ended = v
			return o
		}
	}
}

func (r *rig) run(n int32, argv ...string) outcome {
	r.t.Helper()
	c := r.dial()
	run, err := c.Submit(request(r.t, n, argv...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer run.Close()
	return finish(r.t, run, nil)
}

func TestRunCarriesOutputAndEnd(t *testing.T) {
	r := start(t, testConfig(t))
	o := r.run(1, "sh", "-c", "echo hello; exit 7")
	if o.ended.Code != 7 || string(o.out) != "hello\n" {
		t.Errorf("got code %d and %q, want 7 and hello", o.ended.Code, o.out)
	}
	if o = r.run(4, "sh", "-c", "echo $FILCH_RANK"); len(o.out) != 8 {
		t.Errorf("got %q, want four lines", o.out)
	}
}

func TestRunCarriesStdin(t *testing.T) {
	r := start(t, testConfig(t))
	c := r.dial()
	run, err := c.Submit(request(t, 2, "cat"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	sent := false
	o := finish(t, run, func(v any) {
		if p, ok := v.(wire.Place); ok && !sent && p.Offset > 0 && p.Offset != wire.NoStdin {
			sent = true
			if err := run.Stdin([]byte("to be read twice\n"), true); err != nil {
				t.Error(err)
			}
		}
	})
	if got, want := string(o.out), strings.Repeat("to be read twice\n", 2); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFloodStaysWithinWindows(t *testing.T) {
	r := start(t, testConfig(t))
	c := r.dial()
	run, err := c.Submit(request(t, 1, "sh", "-c", "head -c 64000000 /dev/zero | tr '\\0' '\\n'"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	o := finish(t, run, nil)
	if o.bytes != 64000000 || o.ended.Code != 0 {
		t.Errorf("got %d bytes and code %d", o.bytes, o.ended.Code)
	}
}

func TestClientGoneEndsItsRun(t *testing.T) {
	r := start(t, testConfig(t))
	c := r.dial()
	run, err := c.Submit(request(t, 1, "sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	untilStarted(t, run)
	run.Close()
	poll(t, "the run to end", func() bool { return r.stats().Routes == 0 })
}

func TestKeeperVanishes(t *testing.T) {
	r := start(t, testConfig(t))
	o := r.run(1, "sh", "-c", "setsid sleep 997 & kill -9 $PPID; sleep 998")
	if o.ended.Code != filch.ExitOurs || !strings.Contains(o.ended.Cause.Text, "vanished") {
		t.Errorf("got %+v", o.ended)
	}
	poll(t, "the leftovers to die", func() bool { return !runs(t, "sleep\x00997") && !runs(t, "sleep\x00998") })
}

// Whoever stops a keeper does not keep its job from being cancelled.
func TestCancelReachesAStoppedKeeper(t *testing.T) {
	r := start(t, testConfig(t))
	// The rank stops its keeper only when told: one that is stopped before it
	// said that its ranks run is one that never became ready.
	dir := t.TempDir()
	gate, who := filepath.Join(dir, "gate"), filepath.Join(dir, "keeper")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	run, err := r.dial().Submit(request(t, 1, "sh", "-c", "read x <"+gate+"; echo $PPID >"+who+"; kill -STOP $PPID; sleep 996"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	o := finish(t, run, func(v any) {
		if _, ok := v.(launcher.Started); !ok {
			return
		}
		if err := os.WriteFile(gate, []byte("now\n"), 0o600); err != nil {
			t.Error(err)
		}
		poll(t, "the keeper to be stopped", func() bool {
			pid, _ := os.ReadFile(who)
			stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
			return err == nil && strings.Contains(string(stat), ") T ")
		})
		if err := run.Cancel(15); err != nil {
			t.Error(err)
		}
	})
	if o.ended.Code != filch.ExitCancelled {
		t.Errorf("got %+v", o.ended)
	}
}

// runs reports whether a process with that command line exists.
func runs(t testing.TB, cmdline string) bool {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if b, err := os.ReadFile(n); err == nil && bytes.Contains(b, []byte(cmdline)) {
			return true
		}
	}
	return false
}

func TestSecondLauncherIsRefused(t *testing.T) {
	r := start(t, testConfig(t))
	_, err := New(r.cfg)
	var e *filch.Error
	if !errors.As(err, &e) || e.Kind != filch.Busy || !strings.Contains(e.Text, "runs already, as pid") {
		t.Errorf("got %v", err)
	}
}

func TestManyRunsLeaveNothing(t *testing.T) {
	r := start(t, testConfig(t))
	r.run(1, "true")
	before := r.stats()
	fds := descriptors(t)
	// Keepers that came with the runs may stay, each with a goroutine that
	// reads its link, the link and two handles of its process.
	const idle = 4
	const runs, goroutines, handles = 50, idle + 2, 3*idle + 4
	for range runs {
		if o := r.run(1, "true"); o.ended.Code != 0 {
			t.Fatalf("got %+v", o.ended)
		}
	}
	poll(t, "everything to be let go", func() bool {
		s := r.stats()
		return s.Routes == 0 && s.Goroutines <= before.Goroutines+goroutines && descriptors(t) <= fds+handles
	})
}

func descriptors(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// Whoever is refused a job does not get its output either, and leaves nothing.
func TestRefusedReattachChangesNothing(t *testing.T) {
	r := start(t, testConfig(t))
	run, err := r.dial().Submit(request(t, 1, "sh", "-c", "echo begun; read x; echo $x"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	o := finish(t, run, func(v any) {
		if out, ok := v.(wire.Output); ok && string(out.Data) == "begun\n" {
			for _, job := range []filch.JobID{run.Job, 4711} {
				r.refusedReattach(job)
			}
			if err := run.Stdin([]byte("ended\n"), true); err != nil {
				t.Error(err)
			}
		}
	})
	if string(o.out) != "begun\nended\n" {
		t.Errorf("the job's client got %q", o.out)
	}
	poll(t, "the routes to end", func() bool { return r.stats().Routes == 0 })
}

// refusedReattach claims a job that is not to be had, and leaves.
func (r *rig) refusedReattach(job filch.JobID) {
	r.t.Helper()
	sock, err := net.Dial("unix", r.cfg.Dir.Socket())
	if err != nil {
		r.t.Fatal(err)
	}
	conn := wire.NewConn(sock)
	hello, err := wire.EncodeHello(wire.Hello{Role: "client"})
	if err == nil {
		err = conn.WriteRaw(wire.KindHello, 0, hello)
	}
	if err == nil {
		err = conn.Send(wire.KindReattach, 0, wire.Reattach{Job: job})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	for {
		f, err := conn.Read()
		if err != nil {
			r.t.Fatal(err)
		}
		if f.Kind == wire.KindRefused {
			break
		}
	}
	n := r.clients.Count()
	conn.Close()
	poll(r.t, "the client to be gone", func() bool { return r.clients.Count() < n })
}
