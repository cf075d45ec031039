package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	cli "github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/mirror"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc"
)

// mirrored is a daemon with a fake runner and a queue, whose folder is not there
// yet.
func mirrored(t *testing.T) (*rig, *fakeRunner, mirror.Queue) {
	cfg := testConfig(t)
	cfg.Node.Store = storeConfig(&launcher.Config{Name: "n1", Incarnation: 1})
	q := mirror.Of(place.Home(filepath.Join(t.TempDir(), "a")), "u")
	cfg.Mirror = string(q)
	f := &fakeRunner{}
	c := &crew{begin: func(int) (*fakeRunner, error) { return f, nil }}
	return startWith(t, cfg, func(d *Daemon) { d.keepers.port.runner = c.start }), f, q
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
	tasks, err := c.SubmitTasks(&launcher.TaskSubmission{Name: "once", Total: total, Follow: true, Spec: mtc.Spec{
		Each: mtc.Room{Slots: 1}, Body: append([]byte{launcher.BodyOrder}, b...), Once: true,
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
		if err := r.ask(loopWait, func(*turn) { n, failed = len(r.mirror.held), r.mirror.failed }); err != nil {
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
		return len(jobs) == 1 && jobs[0].Whole() && jobs[0].Settle() == mtc.RemnantTally{Done: 3, Lost: 3}
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
		if r.mirror.doubt(e) {
			t.Errorf("%+v is held", e)
		}
	}
	tasks := r.bag(1, nil)
	poll(t, "the task to begin", func() bool { return len(f.tasks()) == 1 })
	began := time.Now()
	_ = f.conn.Send(wire.KindTaskEnds, 0, []launcher.TaskEnd{{Serial: f.tasks()[0].Serial, Kind: launcher.CauseSignal, Code: sigKill}})
	if n := until(t, tasks, launcher.TasksFinished); n.Tally.Killed != 1 || time.Since(began) < doubtTime {
		t.Errorf("got %+v after %v, want a killed task after %v", n, time.Since(began), doubtTime)
	}
	if i := launcher.CauseExit; !r.mirror.doubt(launcher.TaskEnd{Kind: i, Code: filch.ExitSignalBase + sigTerm}) {
		t.Error("what a shell says of a command that was ended is not held")
	}
}
