package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	cli "github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/mirror"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// mirrored is a daemon with fake runners and a queue, whose folder is not there
// yet.
func mirrored(t *testing.T) (*rig, *fakeRunners, mirror.Queue) {
	cfg := testConfig(t)
	q := mirror.Of(place.Home(filepath.Join(t.TempDir(), "a")), "u")
	cfg.Mirror = string(q)
	f := &fakeRunners{}
	c := &crew{begin: f.add}
	return startWith(t, cfg, func(d *Daemon) { d.keepers.Port.Runner = c.start }), f, q
}

// once submits tasks that run once.
func (r *rig) once(total int32) *cli.Tasks {
	r.t.Helper()
	b, err := wire.Marshal(&launcher.TaskOrder{Argv: []string{"true"}})
	if err != nil {
		r.t.Fatal(err)
	}
	c := r.dial()
	r.t.Cleanup(func() { c.Close() })
	tasks, err := c.SubmitTasks(&submit.Job{Name: "once", Total: total, Follow: true, Spec: record.Spec{
		Each: filch.Room{Slots: 1}, Body: append([]byte{launcher.BodyOrder}, b...), Once: true,
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	return tasks
}

func TestOnceWaitsForTheMirror(t *testing.T) {
	r, f, q := mirrored(t)
	first := r.once(3)
	held := func() (n int, failed bool) {
		if err := r.in.Ask(inputs.LoopWait, func(*inputs.Turn) { n, failed = len(r.mirror.held), r.mirror.failed != nil }); err != nil {
			t.Fatal(err)
		}
		return n, failed
	}
	poll(t, "tasks that wait for the mirror", func() bool { n, failed := held(); return n == 3 && failed })
	if n := len(f.tasks()); n != 0 {
		t.Fatalf("%d tasks that run once began, of which the mirror does not tell", n)
	}
	if err := q.Make(); err != nil {
		t.Fatal(err)
	}
	poll(t, "the tasks to begin", func() bool { return len(f.tasks()) == 3 })
	poll(t, "the job in the mirror", func() bool {
		m, _ := q.Read()
		jobs := m.Jobs()
		return len(jobs) == 1 && jobs[0].Whole() && jobs[0].Settle() == queue.Tally{Done: 3, Lost: 3}
	})
	f.end()
	if n := until(t, first, launcher.TasksFinished); n.Tally.OK != 3 {
		t.Errorf("got %+v", n)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if n := until(t, r.once(3), launcher.TasksFinished); n.Tally.Lost != 3 || len(f.tasks()) != 3 {
		t.Errorf("got %+v, and %d tasks began; another instance has the queue", n, len(f.tasks()))
	}
}

// What an allocation's end did to a task must not be its end.
func TestKillsAreDoubted(t *testing.T) {
	r, f, q := mirrored(t)
	if err := q.Make(); err != nil {
		t.Fatal(err)
	}
	for _, e := range []launcher.TaskEnd{
		{Kind: launcher.CauseSignal, Code: sigInt},
		{Kind: launcher.CauseSignal, Code: sigTerm, Told: true},
		{Kind: launcher.CauseExit, Code: 1},
		{Kind: launcher.CauseOOM, Code: sigKill},
		{},
	} {
		if r.mirror.holdBack(e) {
			t.Errorf("%+v is held", e)
		}
	}
	tasks := r.bag(1, nil)
	poll(t, "the task to begin", func() bool { return len(f.tasks()) == 1 })
	began := time.Now()
	_ = f.list()[0].conn.Send(wire.KindTaskEnds, 0, []launcher.TaskEnd{{Serial: f.tasks()[0].Serial, Kind: launcher.CauseSignal, Code: sigKill}})
	if n := until(t, tasks, launcher.TasksFinished); n.Tally.Killed != 1 || time.Since(began) < holdBackTime {
		t.Errorf("got %+v after %v, want a killed task after %v", n, time.Since(began), holdBackTime)
	}
	if i := launcher.CauseExit; !r.mirror.holdBack(launcher.TaskEnd{Kind: i, Code: filch.ExitSignalBase + sigTerm}) {
		t.Error("what a shell says of a command that was ended is not held")
	}
	// Without a mirrored queue, the node of an allocation doubts kills too: other nodes go on.
	for ends, held := range map[time.Time]bool{{}: false, time.Now().Add(time.Hour): true} {
		m := &mirroring{d: &Daemon{in: r.in, cfg: Config{Ends: ends}, loop: &loop{down: wire.DownNode}}}
		if got := m.holdBack(launcher.TaskEnd{Kind: launcher.CauseSignal, Code: sigTerm}); got != held {
			t.Errorf("on a node that is taken away at %v a kill is held: %t", ends, got)
		}
	}
}

// A mirror whose file system does not answer has a voice: in the log, in doctor
// and in explain; and the launcher ends all the same.
func TestHungMirrorHasAVoice(t *testing.T) {
	cfg := testConfig(t)
	q := mirror.Of(place.Home(filepath.Join(t.TempDir(), "a")), "u")
	if err := q.Make(); err != nil {
		t.Fatal(err)
	}
	cfg.Mirror = string(q)
	f := &fakeRunners{}
	c := &crew{begin: f.add}
	var pipe string
	r := startWith(t, cfg, func(d *Daemon) {
		d.keepers.Port.Runner = c.start
		d.mirror.slow, d.mirror.wait = 200*time.Millisecond, 300*time.Millisecond
		// To open a pipe that nobody reads is to wait in the kernel, as for a
		// server of files that is gone.
		pipe = filepath.Join(string(q), fmt.Sprintf("n1-%d.lines", d.Incarnation()))
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { // let it go, for those who come after
		r.Stop()
		r.end()
		p, err := os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		select {
		case <-r.mirror.ended:
		case <-time.After(10 * time.Second):
			t.Error("the mirror does not end although its file system answers")
		}
	})
	job := until(t, r.once(3), launcher.TasksAccepted).Job
	poll(t, "the trouble in the roster", func() bool {
		var list []wire.RosterInfo
		r.query(t, &list, wire.VerbRoster, wire.OnlyHere)
		h := list[0].Here
		return h.MirrorHeld == 3 && strings.Contains(h.Mirror, "has not answered for") && strings.Contains(h.Mirror, string(q))
	})
	poll(t, "the trouble in explain", func() bool {
		var e launcher.Explanation
		c := r.dial()
		defer c.Close()
		b, err := c.Query(10*time.Second, wire.VerbExplain, job.String())
		if err != nil || json.Unmarshal(b, &e) != nil {
			return false // it may not be recorded yet
		}
		return strings.HasPrefix(e.Text, "3 --once tasks wait until the mirror of the queue has recorded them: the file system of ") && e.State != "running"
	})
	if n := len(f.tasks()); n != 0 {
		t.Errorf("%d tasks that run once began, of which the mirror does not tell", n)
	}
	logged := func(what string) int {
		b, err := os.ReadFile(cfg.Dir.Log())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), what)
	}
	const hangs = "the file system of the queue's mirror does not answer"
	poll(t, "the trouble in the log", func() bool { return logged(hangs) > 0 }) // the answers above may come first
	began := time.Now()
	r.Stop()
	r.end()
	if took := time.Since(began); took > endWait/2 {
		t.Errorf("the launcher took %v to end", took)
	}
	if n := logged(hangs); n != 1 {
		t.Errorf("the log tells %d times that the file system does not answer, want once", n)
	}
	if logged("the end of the queue's mirror is missing") == 0 {
		t.Error("the log does not tell of the end")
	}
}

// What a launcher began may hang in a file system: it ends without it, and says
// so.
func TestLauncherEndsWithoutWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Daemon{in: inputs.New("n1", nil)}
		if err := d.within(endWait, "nothing", func() {}); err != nil {
			t.Errorf("got %v of what has ended", err)
		}
		release, began := make(chan struct{}), time.Now()
		err := d.within(endWait, "a log", func() { <-release })
		if took := time.Since(began); took != endWait {
			t.Errorf("it waited %v, want %v", took, endWait)
		}
		if err == nil || !strings.Contains(err.Error(), "n1 waited 30s for the end of a log") {
			t.Errorf("got %v", err)
		}
		close(release)
	})
}
