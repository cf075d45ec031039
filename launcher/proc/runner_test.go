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
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
)

// crew is the launcher's end of one runner.
type crew struct {
	t     testing.TB
	k     *proc.Keeper
	conn  *wire.Conn
	place proc.Place
	job   filch.JobID
	next  uint64

	mu   sync.Mutex // guards what follows
	ends map[uint64]launcher.TaskEnd
	more *sync.Cond
	gone bool
}

func newCrew(t testing.TB) *crew {
	t.Helper()
	return newCrewIn(t, t.TempDir())
}

// newCrewIn begins a runner whose node's folder is dir.
func newCrewIn(t testing.TB, dir string) *crew {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := proc.Place{Dir: dir, Instance: "quiet-heron", Node: "n3"}
	k, err := proc.SpawnRunner(self, p, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{t: t, k: k, conn: wire.NewConn(k.Link), place: p, ends: map[uint64]launcher.TaskEnd{}}
	c.more = sync.NewCond(&c.mu)
	go c.read()
	t.Cleanup(func() {
		c.conn.Close()
		if err := k.Wait(); err != nil {
			t.Errorf("the runner ended with %v", err)
		}
	})
	return c
}

func (c *crew) read() {
	for {
		f, err := c.conn.Read()
		if err != nil {
			break
		}
		if f.Kind != wire.KindTaskEnds {
			continue
		}
		var ends []launcher.TaskEnd
		if err := wire.Unmarshal(f.Body, &ends); err != nil {
			c.t.Error(err)
		}
		c.mu.Lock()
		for _, e := range ends {
			if _, twice := c.ends[e.Serial]; twice {
				c.t.Errorf("task %d ended twice", e.Serial)
			}
			c.ends[e.Serial] = e
		}
		c.more.Broadcast()
		c.mu.Unlock()
	}
	c.mu.Lock()
	c.gone = true
	c.more.Broadcast()
	c.mu.Unlock()
}

// order tells the runner of a job.
func (c *crew) order(change func(*launcher.TaskOrder)) {
	c.t.Helper()
	c.job++
	o := launcher.TaskOrder{
		Ident: filch.Ident{Instance: "7e3e8a4c-0000-4000-8000-000000000001", Job: c.job, Attempt: 1},
		Env:   os.Environ(), Cwd: c.t.TempDir(), Umask: 0o022, KillWait: time.Second,
	}
	change(&o)
	c.send(wire.KindTaskOrder, &o)
}

func (c *crew) send(k wire.Kind, v any) {
	c.t.Helper()
	err := c.conn.Write(k, 0, v)
	if err == nil {
		err = c.conn.Flush()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// start starts tasks of the last job, and returns the serial of the first.
func (c *crew) start(tasks ...launcher.TaskStart) uint64 {
	c.t.Helper()
	first := c.next + 1
	for i := range tasks {
		c.next++
		tasks[i].Serial, tasks[i].Job, tasks[i].Attempt = c.next, c.job, 1
		if tasks[i].Index == 0 {
			tasks[i].Index = launcher.TaskIndex(i)
		}
		tasks[i].Number = int32(tasks[i].Index)
	}
	c.send(wire.KindTaskStarts, tasks)
	return first
}

// end waits for the end of a task.
func (c *crew) end(serial uint64) launcher.TaskEnd {
	c.t.Helper()
	timer := time.AfterFunc(patience, func() {
		c.mu.Lock()
		c.gone = true
		c.more.Broadcast()
		c.mu.Unlock()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if e, ok := c.ends[serial]; ok {
			return e
		}
		if c.gone {
			c.t.Fatalf("no end of task %d; %d others ended", serial, len(c.ends))
		}
		c.more.Wait()
	}
}

// printed is what the tasks of the last job printed, by "index.stream".
func (c *crew) printed() map[string]string {
	c.t.Helper()
	c.send(wire.KindTaskForget, &launcher.TaskForget{Job: c.job})
	all := map[string]string{}
	read := func() map[string]string {
		clear(all)
		bad, err := output.ReadSegments(c.place.OutputDir(c.job), func(output.Printed) bool { return true }, func(p output.Printed) bool {
			all[fmt.Sprintf("%d.%d", p.Index, p.Stream)] += string(p.Data)
			return true
		})
		if err != nil || bad > 0 {
			c.t.Fatalf("%d bad blocks, %v", bad, err)
		}
		return all
	}
	// The runner has written all when it answers what comes after.
	c.order(func(o *launcher.TaskOrder) { o.Argv = []string{"true"} })
	c.end(c.start(launcher.TaskStart{}))
	c.job--
	out := read()
	c.job++
	return out
}

func TestRunnerEnds(t *testing.T) {
	c := newCrew(t)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		argv []string
		kind launcher.CauseKind
		code int32
		text string
	}{
		{[]string{"true"}, launcher.CauseNone, 0, ""},
		{[]string{"false"}, launcher.CauseExit, 1, "exited with 1"},
		{[]string{"sh", "-c", "exit 77"}, launcher.CauseExit, 77, "exited with 77"},
		{[]string{"sh", "-c", "kill -SEGV $$"}, launcher.CauseSignal, 11, "killed by SIGSEGV"},
		{[]string{"sh", "-c", "kill -KILL $$"}, launcher.CauseSignal, 9, "perhaps out of memory"},
		{[]string{"no-such-program"}, launcher.CauseNotFound, 127, "not on n3"},
		{[]string{plain}, launcher.CauseNotExec, 126, "permission"},
	} {
		c.order(func(o *launcher.TaskOrder) { o.Argv = test.argv })
		e := c.end(c.start(launcher.TaskStart{}))
		if e.Kind != test.kind || e.Code != test.code || !strings.Contains(strings.ToLower(e.Text), strings.ToLower(test.text)) {
			t.Errorf("%v: got %+v", test.argv, e)
		}
		if test.code < 126 && (e.Began == 0 || e.Ended < e.Began) {
			t.Errorf("%v: began %d, ended %d", test.argv, e.Began, e.Ended)
		}
	}
}

func TestRunnerKeepsOutput(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) {
		o.Argv = []string{"sh", "-c", "echo out $FILCH_TASK; echo err $FILCH_TASK >&2"}
	})
	var many []launcher.TaskStart
	for range 200 {
		many = append(many, launcher.TaskStart{})
	}
	first := c.start(many...)
	for i := range uint64(200) {
		if e := c.end(first + i); e.Kind != launcher.CauseNone || e.Bytes == 0 {
			t.Fatalf("got %+v", e)
		}
	}
	out := c.printed()
	for i := range 200 {
		n := strconv.Itoa(i)
		if out[n+".1"] != "out "+n+"\n" || out[n+".2"] != "err "+n+"\n" {
			t.Errorf("task %d: got %q and %q", i, out[n+".1"], out[n+".2"])
		}
	}
}

func TestRunnerKeepsOnlyOfFailed(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) {
		o.Argv, o.Keep = []string{"sh", "-c", "echo $FILCH_TASK; exit $((FILCH_TASK % 2))"}, launcher.KeepFailed
	})
	first := c.start(launcher.TaskStart{Index: 2}, launcher.TaskStart{Index: 3})
	c.end(first)
	c.end(first + 1)
	if out := c.printed(); len(out) != 1 || out["3.1"] != "3\n" {
		t.Errorf("got %q", out)
	}
}

func TestRunnerWritesFiles(t *testing.T) {
	c := newCrew(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in.5"), []byte("five"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.order(func(o *launcher.TaskOrder) {
		o.Argv, o.Cwd = []string{"sh", "-c", "cat; echo err >&2"}, dir
		o.Stdin, o.Stdout, o.Stderr = "in.%t", "out/%j/%t", "-"
	})
	if e := c.end(c.start(launcher.TaskStart{Index: 5})); e.Kind != launcher.CauseNone {
		t.Fatalf("got %+v", e)
	}
	b, err := os.ReadFile(filepath.Join(dir, "out", c.job.String(), "5"))
	if err != nil || string(b) != "fiveerr\n" {
		t.Errorf("got %q, %v", b, err)
	}
	if e := c.end(c.start(launcher.TaskStart{Index: 6})); e.Kind != launcher.CauseOurs || !strings.Contains(e.Text, "in.6") {
		t.Errorf("a missing input: got %+v", e)
	}
}

func TestRunnerEndsTheWholeTree(t *testing.T) {
	c := newCrew(t)
	mark := fmt.Sprintf("987%d", os.Getpid())
	// One child in the task's group, one in a session of its own.
	c.order(func(o *launcher.TaskOrder) {
		o.Argv = []string{"sh", "-c", "sleep " + mark + " & setsid sleep " + mark + " & echo started; $1", "sh", "true"}
	})
	c.end(c.start(launcher.TaskStart{}))
	eventually(t, "the children of an ended task to go", func() bool { return countRunning(t, mark) == 0 })

	c.order(func(o *launcher.TaskOrder) {
		o.Argv = []string{"sh", "-c", "trap '' TERM; setsid sleep " + mark + " & sleep " + mark + "; sleep " + mark}
	})
	s := c.start(launcher.TaskStart{})
	eventually(t, "the tree to be there", func() bool { return countRunning(t, mark) >= 2 })
	c.send(wire.KindTaskStop, &launcher.TaskStop{Serial: s, Grace: 50 * time.Millisecond})
	if e := c.end(s); !e.Told || e.Kind != launcher.CauseSignal || e.Code != 9 {
		t.Errorf("a stubborn task: got %+v", e)
	}
	eventually(t, "all of it to go", func() bool { return countRunning(t, mark) == 0 })
}

// A session for each task would be a scheduling group for each, where the kernel
// groups by session (sched_autogroup_enabled): a short task costs a tenth more,
// and waits for its first turn behind all that runs.
func TestTasksHaveGroupsInOneSession(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) {
		o.Argv = []string{"sh", "-c", "read pid name state parent group session rest < /proc/$$/stat; echo $((group == pid)) $session"}
	})
	first := c.start(make([]launcher.TaskStart, 2)...)
	c.end(first)
	c.end(first + 1)
	want := fmt.Sprintf("1 %d\n", c.k.PID) // a runner leads its session
	all := c.printed()
	for _, stream := range []string{"0.1", "1.1"} {
		if all[stream] != want {
			t.Errorf("%s: group of its own and session are %q, want %q", stream, all[stream], want)
		}
	}
}

func TestRunnerTimeLimit(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) { o.Argv = []string{"sleep", "1000"} })
	e := c.end(c.start(launcher.TaskStart{Limit: 30 * time.Millisecond}))
	if e.Kind != launcher.CauseTimeLimit || e.Code != filch.ExitTimeLimit || !strings.Contains(e.Text, "30ms") {
		t.Errorf("got %+v", e)
	}
}

func TestRunnerBoundsAFlood(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) {
		o.Argv = []string{"sh", "-c", "echo first; head -c 100000000 /dev/zero; echo last"}
	})
	e := c.end(c.start(launcher.TaskStart{}))
	if e.Kind != launcher.CauseNone || e.Bytes != 16<<20 {
		t.Errorf("got %+v", e)
	}
	out := c.printed()["0.1"]
	if !strings.HasPrefix(out, "first\n") || !strings.HasSuffix(out, "last\n") {
		t.Errorf("got %d bytes, %.10q ... %.10q", len(out), out, out[max(0, len(out)-10):])
	}
}

func TestRunnerDiesWithItsTasks(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := proc.Place{Dir: t.TempDir(), Instance: "quiet-heron", Node: "n3"}
	for _, how := range []string{"link closed", "killed"} {
		k, err := proc.SpawnRunner(self, p, os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		c := &crew{t: t, k: k, conn: wire.NewConn(k.Link), place: p, ends: map[uint64]launcher.TaskEnd{}}
		c.more = sync.NewCond(&c.mu)
		mark := fmt.Sprintf("986%d", os.Getpid())
		c.order(func(o *launcher.TaskOrder) {
			o.Argv = []string{"sh", "-c", "trap '' TERM; sleep " + mark + "; sleep 1"}
		})
		c.start(launcher.TaskStart{}, launcher.TaskStart{})
		eventually(t, "the tasks to run", func() bool { return countRunning(t, mark) >= 2 })
		if how == "killed" {
			proc, _ := os.FindProcess(k.PID)
			proc.Kill()
		}
		c.conn.Close()
		_ = k.Wait()
		eventually(t, "the tasks to go after the runner: "+how, func() bool {
			proc.SweepOrphans(p)
			return countRunning(t, mark) == 0
		})
	}
}

const workerScript = `while read index attempt text; do
  case $text in
  fail*) echo "$index 3 no good";;
  mute) exit 9;;
  odd) echo nonsense;;
  *) echo "did $text" >&2; echo "$index 0";;
  esac
done`

func TestRunnerWorkers(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) { o.Argv, o.Worker = []string{"sh", "-c", workerScript}, true })
	lines := []string{"one", "fail this", "mute", "odd", "two", "three"}
	var all []launcher.TaskStart
	for _, l := range lines {
		all = append(all, launcher.TaskStart{Line: l})
	}
	first := c.start(all...)
	want := []struct {
		kind launcher.CauseKind
		code int32
		text string
	}{
		{},
		{launcher.CauseExit, 3, "no good"},
		{launcher.CauseExit, 9, "its worker exited with 9"},
		{launcher.CauseProtocol, 1, "nonsense"},
		{},
		{},
	}
	for i, w := range want {
		if e := c.end(first + uint64(i)); e.Kind != w.kind || e.Code != w.code || !strings.Contains(e.Text, w.text) {
			t.Errorf("%q: got %+v", lines[i], e)
		}
	}
	out := c.printed()
	if out["0.2"] != "did one\n" || out["5.2"] != "did three\n" {
		t.Errorf("got %q", out)
	}
}

// A runner that is told to forget a job whose tasks wait for their fork goes on
// with the tasks of the others.
func TestRunnerForgetsAJobThatWaits(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) { o.Argv = []string{"true"} })
	first, starts := c.next+1, make([]launcher.TaskStart, 100)
	for i := range starts {
		c.next++
		starts[i] = launcher.TaskStart{Serial: c.next, Job: c.job, Index: launcher.TaskIndex(i), Attempt: 1}
	}
	if err := c.conn.Write(wire.KindTaskStarts, 0, starts); err != nil {
		t.Fatal(err)
	}
	c.send(wire.KindTaskForget, &launcher.TaskForget{Job: c.job}) // both at once
	c.order(func(o *launcher.TaskOrder) { o.Argv = []string{"true"} })
	if e := c.end(c.start(launcher.TaskStart{})); e.Kind != launcher.CauseNone {
		t.Errorf("a task of another job: got %+v", e)
	}
	for i := range uint64(100) {
		c.end(first + i)
	}
}

// Many ends that have much to say fit into frames.
func TestRunnerTellsManyLongEnds(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) { o.Argv = []string{strings.Repeat("x", 1<<20)} })
	first := c.start(make([]launcher.TaskStart, 100)...)
	for i := range uint64(100) {
		if e := c.end(first + i); e.Kind != launcher.CauseNotFound && e.Kind != launcher.CauseNotExec || e.Text == "" || len(e.Text) > 4<<10 {
			t.Fatalf("got %+v, %.100q", e.Kind, e.Text)
		}
	}
}

// countRunning counts the processes with a word in their command line.
func countRunning(t testing.TB, word string) int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte("sleep\x00"+word+"\x00")) {
			n++
		}
	}
	return n
}

func BenchmarkRunnerTrue(b *testing.B) {
	for _, slots := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			c := newCrew(b)
			c.order(func(o *launcher.TaskOrder) { o.Argv = []string{"/bin/true"} })
			var first uint64
			done := uint64(0)
			for range slots {
				if s := c.start(launcher.TaskStart{}); first == 0 {
					first = s
				}
			}
			for b.Loop() {
				c.end(first + done)
				done++
				c.start(launcher.TaskStart{})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
