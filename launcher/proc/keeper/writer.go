package keeper

import (
	"fmt"
	"sync"
	"time"

	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// fileWriter writes files on a goroutine of its own: a file system that hangs must not
// keep the keeper from killing. The queue is bounded because callers check waiting before
// adding.
type fileWriter struct {
	out  *outputs
	bell int // an eventfd that wakes the keeper

	mu     sync.Mutex // guards the fields below
	more   *sync.Cond
	queue  []block
	bytes  int
	closed bool
	faults []string
	late   time.Time // when the wait for the job's last output ends
}

// block is bytes for a file.
type block struct {
	to   *outputFile
	data []byte
}

func newFileWriter(o *outputs) (*fileWriter, error) {
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &fileWriter{out: o, bell: bell}
	w.more = sync.NewCond(&w.mu)
	go w.run()
	return w, o.job.keeper.poll.Watch(bell, proc.Readable, func(uint32) { w.rung() })
}

// waiting is the number of unwritten bytes.
func (w *fileWriter) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

func (w *fileWriter) write(to *outputFile, data []byte) {
	w.mu.Lock()
	w.queue = append(w.queue, block{to, data})
	w.bytes += len(data)
	w.mu.Unlock()
	w.more.Signal()
}

func (w *fileWriter) run() {
	broken := map[*outputFile]bool{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.queue) == 0 && !w.closed {
			w.more.Wait()
		}
		if len(w.queue) == 0 {
			return
		}
		batch := w.queue
		w.queue = nil
		w.mu.Unlock()
		total := 0
		var faults []string
		for _, b := range batch {
			total += len(b.data)
			if broken[b.to] {
				continue
			}
			if err := proc.WriteAll(b.to.fd, b.data); err != nil {
				broken[b.to] = true
				faults = append(faults, fmt.Sprintf("cannot write %s: %s; later output is lost", b.to.name, proc.Reason(err)))
			}
		}
		w.mu.Lock()
		w.bytes -= total
		w.faults = append(w.faults, faults...)
		unix.Write(w.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// rung runs on the keeper's thread after something was written.
func (w *fileWriter) rung() {
	var b [8]byte
	unix.Read(w.bell, b[:])
	w.mu.Lock()
	faults := w.faults
	w.faults = nil
	w.mu.Unlock()
	for _, f := range faults {
		w.out.job.warn(string(w.out.job.node()) + ": " + f)
	}
	w.out.resume()
}

// finished reports, after the last process has ended, whether all bytes are written, or
// the wait for a hanging file system is over: such a file system must not keep the slots.
func (w *fileWriter) finished() bool {
	if w.waiting() == 0 {
		w.rung() // report the last faults
		return true
	}
	if w.late.IsZero() {
		w.late = time.Now().Add(proc.UnkillableAfter)
		w.out.job.keeper.poll.After(proc.UnkillableAfter, func() {})
	}
	if time.Now().Before(w.late) {
		return false
	}
	w.out.job.warn(fmt.Sprintf("%s: %d bytes of output could not be written within %v: the file system does not answer",
		w.out.job.node(), w.waiting(), proc.UnkillableAfter))
	w.out.hung = true
	return true
}

// close ends the goroutine. Either no bytes are waiting, or the goroutine hangs and its
// files stay open.
func (w *fileWriter) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.more.Signal()
	w.out.job.keeper.poll.Drop(w.bell)
	unix.Close(w.bell)
}
