package runner

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// A worker that could not be killed ends all the same one day: its task has
// ended long before, once, and its files are closed once.
func TestGiveUpOfAWorker(t *testing.T) {
	runtime.LockOSThread() // the worker dies with the thread that forked it
	defer runtime.UnlockOSThread()
	poll, err := proc.NewEpoll()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(poll.FD)
	r := &runner{
		poll: poll, link: &proc.Link{FD: -1}, place: proc.Place{Dir: t.TempDir(), Node: "n3"},
		orders: map[filch.JobID]*taskOrder{}, tasks: map[uint64]*task{}, byPID: map[int]*task{},
	}
	r.keep, r.looks = newKeeping(r), newLooks(r)
	defer r.keep.close()
	r.orders[1] = newTaskOrder(r, &launcher.TaskOrder{
		Ident: filch.Ident{Job: 1}, Argv: []string{"/bin/sh", "-c", "echo printed >&2; read x; read y"},
		Worker: true, Keep: launcher.KeepAll, Env: os.Environ(), Cwd: "/",
	})
	r.start(&launcher.TaskStart{Serial: 1, Job: 1, Line: "x"})
	x := r.tasks[1]
	if x == nil {
		t.Fatalf("no task was started: %+v", r.ends)
	}
	w, printed := x.worker, x.out.fds[1]
	for end := time.Now().Add(10 * time.Second); size(printed) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	r.giveUp(x)
	var others []*os.File // which take the numbers of what was closed
	for range 8 {
		f, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		others = append(others, f)
	}
	if err := unix.Kill(w.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for w.pidfd >= 0 {
		if err := poll.Turn(); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range others {
		if _, err := f.Stat(); err != nil {
			t.Errorf("a file of somebody else was closed: %v", err)
		}
	}
	if len(r.ends) != 1 || !r.ends[0].Left || r.ends[0].Bytes < int64(len("printed\n")) {
		t.Errorf("told %+v", r.ends)
	}
}
