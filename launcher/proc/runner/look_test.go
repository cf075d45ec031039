package runner

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// lookRig is a runner without a process of its own, and the launcher's end of its link.
type lookRig struct {
	*runner
	t        *testing.T
	launcher *wire.Conn
	frames   chan wire.Frame
}

func newLookRig(t *testing.T) *lookRig {
	t.Helper()
	runtime.LockOSThread() // the tasks die with the thread that forked them
	t.Cleanup(runtime.UnlockOSThread)
	poll, err := proc.NewEpoll()
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[1]), "launcher")
	conn, err := net.FileConn(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	r := &lookRig{t: t, launcher: wire.NewConn(conn), frames: make(chan wire.Frame, 64)}
	r.runner = &runner{
		poll: poll, place: proc.Place{Dir: t.TempDir(), Node: "n3"},
		orders: map[filch.JobID]*taskOrder{}, tasks: map[uint64]*task{}, byPID: map[int]*task{},
	}
	r.keep, r.looks = newKeeping(r.runner), newLooks(r.runner)
	r.link = &proc.Link{Poll: poll, OnFrame: r.frame, OnLost: r.launcherGone}
	if err := r.link.Open(fds[0]); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.frames)
		for {
			f, err := r.launcher.Read()
			if err != nil {
				return
			}
			r.frames <- f
		}
	}()
	t.Cleanup(func() {
		r.launcher.Close()
		for len(r.tasks) > 0 && !t.Failed() {
			r.turn()
		}
		r.looks.close()
		r.keep.close()
		unix.Close(poll.FD)
	})
	r.orders[1] = newTaskOrder(r.runner, &launcher.TaskOrder{Ident: filch.Ident{Job: 1}, Keep: launcher.KeepAll, Env: os.Environ(), Cwd: "/"})
	return r
}

// turn handles the events of at most ten milliseconds.
func (r *lookRig) turn() {
	r.t.Helper()
	wake := r.poll.After(10*time.Millisecond, func() {})
	if err := r.poll.Turn(); err != nil {
		r.t.Fatal(err)
	}
	r.poll.Stop(wake)
	r.link.Flush()
}

// begin starts a task of sh, which reads from the returned pipe.
func (r *lookRig) begin(serial uint64, script string) (in *os.File) {
	r.t.Helper()
	name := fmt.Sprintf("%s/in%d", r.place.Dir, serial)
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		r.t.Fatal(err)
	}
	in, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { in.Close() })
	r.start(&launcher.TaskStart{
		Serial: serial, Job: 1, Index: launcher.TaskIndex(serial), Nth: 1, Argv: []string{"/bin/sh", "-c", script},
		Streams: &launcher.Streams{Stdin: name},
	})
	if r.tasks[serial] == nil {
		r.t.Fatalf("no task was started: %+v", r.ends)
	}
	return in
}

// next waits for a frame of the runner.
func (r *lookRig) next() wire.Frame {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); r.turn() {
		select {
		case f := <-r.frames:
			return f
		default:
		}
	}
	r.t.Fatal("the runner sends no frame")
	return wire.Frame{}
}

// look asks for output, and returns the answer.
func (r *lookRig) look(q launcher.TaskLook) (seen launcher.TaskSeen) {
	r.t.Helper()
	q.Span = launcher.TaskSpan{Job: 1, Last: math.MaxInt32}
	if err := r.launcher.Send(wire.KindTaskLook, 0, &q); err != nil {
		r.t.Fatal(err)
	}
	f := r.next()
	if err := wire.Unmarshal(f.Body, &seen); f.Kind != wire.KindTaskSeen || err != nil {
		r.t.Fatalf("got %s, %v, want an answer", f.Kind, err)
	}
	return seen
}

// A look shows whole lines of a running task; with nothing new, the next write of the task
// sends word once, and silence sends none.
func TestLookShowsARunningTask(t *testing.T) {
	r := newLookRig(t)
	in := r.begin(7, `while read -r line; do printf "$line"; done`)
	say := func(text string) {
		if _, err := in.WriteString(text + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	if s := r.look(launcher.TaskLook{Limit: 1000, Lines: true, Watch: true}); len(s.Pieces) > 0 || len(s.Running) > 0 || s.More {
		t.Errorf("before any output: got %+v", s)
	}
	say(`one\ntwo\nthr`)
	stir := r.next()
	var span launcher.TaskSpan
	if err := wire.Unmarshal(stir.Body, &span); stir.Kind != wire.KindTaskStir || err != nil || !span.Has(1, 7) {
		t.Fatalf("got %s %+v, %v, want word of task 1.7", stir.Kind, span, err)
	}
	s := r.look(launcher.TaskLook{Limit: 1000, Lines: true, Watch: true})
	if len(s.Pieces) != 1 || string(s.Pieces[0].Data) != "one\ntwo\n" || len(s.Running) != 1 || s.Running[0].At != 8 {
		t.Fatalf("got %+v, want the two lines", s)
	}
	marks := s.Running
	if s = r.look(launcher.TaskLook{Limit: 1000, Lines: true, Watch: true, Marks: marks}); len(s.Pieces) != 0 || len(s.Running) != 1 {
		t.Errorf("without a new line: got %+v", s)
	}
	if s = r.look(launcher.TaskLook{Limit: 1000, Marks: marks}); len(s.Pieces) != 1 || string(s.Pieces[0].Data) != "thr" {
		t.Errorf("a part of a line: got %+v", s)
	}
	if s = r.look(launcher.TaskLook{Limit: 6, Lines: true, Watch: true}); len(s.Pieces) != 1 || string(s.Pieces[0].Data) != "one\n" || !s.More {
		t.Errorf("of two lines that exceed the limit: got %+v, want the first line, and more to come", s)
	}
	say(`ee\n`)
	if f := r.next(); f.Kind != wire.KindTaskStir {
		t.Errorf("got %s, want word of the write", f.Kind)
	}
	say(`four\n`)
	if s = r.look(launcher.TaskLook{Limit: 1000, Ended: true, Marks: marks}); len(s.Pieces) != 0 || len(s.Running) != 1 {
		t.Errorf("of ended tasks: got %+v", s)
	}
	if len(r.looks.watched) != 0 {
		t.Errorf("%d spans are watched, and nobody waits", len(r.looks.watched))
	}
}

// An answer with the output of several tasks cuts no line, though the limit comes within one.
func TestLookOfSeveralTasksKeepsLinesWhole(t *testing.T) {
	r := newLookRig(t)
	const lines, length = 10, 100
	for _, i := range []uint64{7, 8, 9} {
		r.begin(i, fmt.Sprintf(`printf '%%0%dd\n' $(seq %d); read -r line`, length-1, lines))
	}
	var seen launcher.TaskSeen
	got := map[launcher.TaskIndex]int{}
	for end := time.Now().Add(20 * time.Second); got[7]+got[8]+got[9] < 3*lines*length && time.Now().Before(end); {
		seen = r.look(launcher.TaskLook{Limit: 2*length + length/2, Lines: true, Marks: seen.Running})
		for _, p := range seen.Pieces {
			if !strings.HasSuffix(string(p.Data), "\n") {
				t.Fatalf("%d bytes of task %d end within a line: %q", len(p.Data), p.Mark.Index, p.Data)
			}
			got[p.Mark.Index] += len(p.Data)
		}
		if len(seen.Pieces) == 0 && seen.More {
			t.Fatal("an answer without output says that there is more")
		}
	}
	for i, n := range got {
		if n != lines*length {
			t.Errorf("task %d: got %d bytes, want %d", i, n, lines*length)
		}
	}
}

// A follower of a silent task costs the runner nothing: while the follower waits, the runner
// has no timer for the follower, and sends no frame.
func TestWatchOfASilentTaskWaitsForTheKernel(t *testing.T) {
	r := newLookRig(t)
	r.begin(7, `read -r line`)
	r.begin(8, `read -r line`)
	r.look(launcher.TaskLook{Limit: 1000, Watch: true})
	if len(r.looks.watched) != 1 || len(r.looks.serials) != 4 {
		t.Errorf("%d spans and %d files are watched, want 1 and the 4 files of both tasks", len(r.looks.watched), len(r.looks.serials))
	}
	r.poll.Stop(r.keep.look) // at the sizes, with and without a follower
	if ms := r.poll.Pause(); ms >= 0 {
		t.Errorf("the runner would wake in %d ms, and no task has printed", ms)
	}
	r.turn()
	select {
	case f := <-r.frames:
		t.Errorf("the runner sends %s, and no task has printed", f.Kind)
	default:
	}
}

// A look at output takes the next look at the sizes along once half of the time has passed:
// a runner that answers a follower need not wake for the sizes too.
func TestLooksTakeTheSizesAlong(t *testing.T) {
	r := newLookRig(t)
	r.begin(7, `read -r line`)
	first := r.keep.look
	r.look(launcher.TaskLook{Limit: 1000})
	if !r.poll.Near(first, outputLook/2) && r.keep.look != first {
		t.Error("a look right after the last look at the sizes repeats it")
	}
	for !r.poll.Near(first, outputLook/2) {
		r.turn()
	}
	if r.keep.look == first {
		if r.look(launcher.TaskLook{Limit: 1000}); r.keep.look == first || r.keep.look == nil {
			t.Error("a late look leaves the sizes to a wake of their own")
		}
	}
}

// A task that starts, or ends with output, after the look sends word too, and its output
// is in the segments by the next look.
func TestLookHearsOfStartsAndEnds(t *testing.T) {
	r := newLookRig(t)
	r.look(launcher.TaskLook{Limit: 1000, Watch: true})
	in := r.begin(3, "read x; echo done")
	in.WriteString("\n")
	if f := r.next(); f.Kind != wire.KindTaskStir {
		t.Fatalf("got %s, want word of the new task", f.Kind)
	}
	for len(r.tasks) > 0 {
		r.turn()
	}
	if s := r.look(launcher.TaskLook{Limit: 1000}); len(s.Pieces)+len(s.Running) != 0 {
		t.Errorf("got %+v of a task that has ended", s)
	}
	kept := ""
	if _, err := output.ReadSegments(r.place.OutputDir(1), func(output.Printed) bool { return true }, func(p output.Printed) bool {
		kept += string(p.Data)
		return true
	}); err != nil || kept != "done\n" {
		t.Errorf("kept %q, %v", kept, err)
	}
}

// A reader that fell behind a flood gets the beginning, the number of dropped bytes, and
// the rest; of files and of pipes alike.
func TestAfterSkipsDroppedBytes(t *testing.T) {
	r := newLookRig(t)
	const total = 3 * scarceKeep
	text := bytes.Repeat([]byte("0123456789abcde\n"), total/16)
	file, err := outputFile(r.place.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	if _, err := unix.Write(file, text); err != nil {
		t.Fatal(err)
	}
	c := &taskOutput{keep: scarceKeep, fds: [2]int{file, -1}}
	c.lost[0] = total - scarceKeep
	if err := unix.Fallocate(file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, c.keep/2, c.lost[0]); err != nil {
		t.Fatal(err)
	}
	piped := &taskOutput{keep: scarceKeep, fds: [2]int{-1, -1}, drains: [2]*drain{{fd: -1}, {fd: -1}}}
	piped.drains[0].add(text)
	for name, c := range map[string]*taskOutput{"file": c, "pipe": piped} {
		for _, n := range []int{15, 16, 1000, lookMax} {
			got, at, lost := []byte{}, int64(0), int64(0)
			for range total + 1 {
				data, next, skipped := c.after(0, at, n, false, r.poll)
				if next == at {
					break
				}
				if next-at != int64(len(data))+skipped {
					t.Fatalf("%s, %d at a time: from %d to %d with %d bytes and %d skipped", name, n, at, next, len(data), skipped)
				}
				got, at, lost = append(got, data...), next, lost+skipped
			}
			_, from, to := c.gap(0)
			want := string(text[:from]) + string(text[to:])
			if at != total || lost != to-from || string(got) != want || lost == 0 {
				t.Errorf("%s, %d at a time: got %d bytes up to %d with %d lost, want %d and %d", name, n, len(got), at, lost, len(want), to-from)
			}
		}
	}
}

// Lines that are longer than the limit come in parts, and never stop the reader.
func TestAfterCutsLongLines(t *testing.T) {
	r := newLookRig(t)
	c := &taskOutput{keep: output.KeptMax, fds: [2]int{-1, -1}, drains: [2]*drain{{fd: -1}, {fd: -1}}}
	line := strings.Repeat("x", output.LineMax-1) + "\n"
	c.drains[0].add([]byte("short\n" + line[:output.LineMax-2]))
	if data, _, _ := c.after(0, 0, lookMax, true, r.poll); string(data) != "short\n" {
		t.Errorf("got %d bytes, want the whole line", len(data))
	}
	if data, _, _ := c.after(0, 6, lookMax, true, r.poll); data != nil {
		t.Errorf("got %d bytes of a line without its end", len(data))
	}
	if data, _, _ := c.after(0, 6, 100, true, r.poll); len(data) != 100 {
		t.Errorf("with a limit of 100: got %d bytes", len(data))
	}
	c.drains[0].add([]byte("xy"))
	if data, _, _ := c.after(0, 6, lookMax, true, r.poll); len(data) != output.LineMax {
		t.Errorf("got %d bytes of a line of %d, want all", len(data), output.LineMax)
	}
}
