package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/mirror"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// mirroring is this node's part of the queue's mirror: the file, and the held tasks.
// Tasks that may run only once wait for the file. The loop owns all fields except queue
// and writer.
type mirroring struct {
	d      *Daemon
	queue  mirror.Queue   // "": the instance has no mirror
	writer *mirror.Writer // nil: the instance has no mirror
	held   []heldTask
	halt   context.CancelFunc
	ended  chan struct{}
	failed error // the last error; nil: the writer works
	hung   bool  // the file system did not answer in time, and a warning was logged
	slow   time.Duration
	wait   time.Duration // for the end of the mirror
}

// heldTask is a task that starts when all lines up to a number are durable.
type heldTask struct {
	number uint64
	launch launcher.TaskLaunch
}

// holdBackTime is how long the end of a task is held back if none of our processes killed
// the task, and the node is of an allocation, or the queue may continue in another instance. The
// end of an allocation signals all processes, in no order: such a signal must not count as the
// end of a task, which other nodes start again.
const holdBackTime = 5 * time.Second

// holdBack reports whether an end is held back. The end is reported after holdBackTime if
// this launcher is still alive then, and is not going down.
func (m *mirroring) holdBack(e launcher.TaskEnd) bool {
	killed := e.Kind == launcher.CauseSignal && (e.Code == sigTerm || e.Code == sigKill) ||
		e.Kind == launcher.CauseExit && (e.Code == filch.ExitSignalBase+sigTerm || e.Code == filch.ExitSignalBase+sigKill)
	if !m.on() && m.d.cfg.Ends.IsZero() || e.Told || !killed {
		return false
	}
	d := m.d
	time.AfterFunc(holdBackTime, func() {
		d.in.Post(func(t *inputs.Turn) {
			if d.loop.down == "" {
				d.runners.Report(t, []launcher.TaskEnd{e})
			}
		})
	})
	return true
}

const (
	mirrorSlow = 10 * time.Second // after which a warning says that the mirror's file system hangs
	mirrorEnd  = 10 * time.Second // how long an ending launcher waits for its mirror
)

func newMirroring(d *Daemon) *mirroring {
	return &mirroring{d: d, queue: mirror.Queue(d.cfg.Mirror), ended: make(chan struct{}), slow: mirrorSlow, wait: mirrorEnd}
}

// Queue returns the folder of the mirror, "" for none.
func (m *mirroring) Queue() mirror.Queue { return m.queue }

func (m *mirroring) on() bool { return m.queue != "" }

// begin starts the writer.
func (m *mirroring) begin() {
	if !m.on() {
		close(m.ended)
		return
	}
	d := m.d
	name := fmt.Sprintf("%s-%d", d.in.Self, d.cfg.Node.Incarnation)
	m.writer = mirror.NewWriter(m.queue, name, mirror.Config{
		SlowAfter: m.slow, Slow: func() { d.in.Post(func(*inputs.Turn) { m.onSlow() }) },
		Synced: func(upto uint64, closed bool) { d.in.Post(func(t *inputs.Turn) { m.onSynced(upto, closed) }) },
		Failed: func(err error) { d.in.Post(func(*inputs.Turn) { m.onFailed(err) }) },
		Lost:   func() { d.in.Post(func(t *inputs.Turn) { t.Node.MirrorAgain(t.Now) }) },
	})
	// The writer runs until the loop has ended, since the last turn adds lines. The
	// daemon's end waits without a limit for other goroutines, not for this one: see
	// end.
	ctx, stop := context.WithCancel(context.WithoutCancel(d.in.Context()))
	m.halt = stop
	go func() {
		defer close(m.ended)
		m.writer.Run(ctx)
	}()
}

// add appends lines of the Node to the mirror.
func (m *mirroring) add(lines []byte) {
	if m.writer != nil && len(lines) > 0 {
		m.writer.Add(lines, true)
	}
}

// end writes the last lines, within the wait for the file system.
func (m *mirroring) end(lines []byte) {
	if m.writer == nil {
		return
	}
	m.add(lines)
	m.halt()
	select {
	case <-m.ended:
	case <-time.After(m.wait):
		m.d.in.Fault("the end of the queue's mirror is missing", errors.New("its file system does not answer"), "queue", string(m.queue))
	}
}

// launch starts a task; a task that runs only once waits until the mirror has a durable
// line about the start.
func (m *mirroring) launch(l *launcher.TaskLaunch) {
	if m.writer == nil || !l.Start.Spec.Once {
		m.d.runners.Launch(l)
		return
	}
	by := record.Owner{Node: m.d.in.Self, Incarnation: m.d.cfg.Node.Incarnation}
	line := queue.AppendStart(nil, l.Start.Job, l.Start.Index, l.Start.Attempt, by)
	m.held = append(m.held, heldTask{m.writer.Add(line, false), *l})
}

// stop ends a task; a held task never begins.
func (m *mirroring) stop(s launcher.TaskStop) {
	for i := range m.held {
		if m.held[i].launch.Serial == s.Serial {
			m.held = append(m.held[:i], m.held[i+1:]...)
			m.d.runners.QueueEnd(launcher.TaskEnd{
				Serial: s.Serial, Kind: launcher.CauseCancel, Code: filch.ExitCancelled, Told: true,
				Ended: time.Now().UnixNano(), Text: "not started: the task was stopped",
			})
			return
		}
	}
	m.d.runners.Stop(s)
}

// onSynced starts the held tasks up to a number. If another instance continues the queue,
// that instance counts these tasks as lost.
func (m *mirroring) onSynced(upto uint64, closed bool) {
	if m.failed != nil || m.hung {
		m.failed, m.hung = nil, false
		m.d.in.Watch.Log().Info("the queue's mirror is written again", "queue", string(m.queue))
	}
	n := 0
	for n < len(m.held) && m.held[n].number <= upto {
		n++
	}
	due := m.held[:n]
	m.held = m.held[n:]
	for i := range due {
		if !closed {
			m.d.runners.Launch(&due[i].launch)
			continue
		}
		m.d.runners.QueueEnd(launcher.TaskEnd{
			Serial: due[i].launch.Serial, Kind: launcher.CauseNodeLost, Code: filch.ExitNodeLost,
			Ended: time.Now().UnixNano(), Text: "not started: another instance continues the queue",
		})
	}
	if closed && n > 0 {
		m.d.in.Fault("cannot start what runs once", errors.New("another instance continues the queue"), "queue", string(m.queue))
	}
}

// onFailed notes that the mirror is behind.
func (m *mirroring) onFailed(err error) {
	if m.failed == nil {
		m.d.in.Fault("cannot write the queue's mirror", err, "queue", string(m.queue), "waiting", len(m.held))
	}
	m.failed = err
}

// onSlow notes that the mirror's file system does not answer.
func (m *mirroring) onSlow() {
	if !m.hung {
		m.hung = true
		m.d.in.Watch.Log().Warn("the file system of the queue's mirror does not answer", "took", m.writer.Busy(), "queue", string(m.queue), "waiting", len(m.held))
	}
}

// Held reports whether a task waits for the mirror.
func (m *mirroring) Held(serial uint64) bool {
	return slices.ContainsFunc(m.held, func(h heldTask) bool { return h.launch.Serial == serial })
}

// Trouble returns the reason why the mirror is behind, "" when the mirror is not.
func (m *mirroring) Trouble() string {
	switch {
	case m.writer == nil:
		return ""
	case m.writer.Busy() >= m.slow:
		return fmt.Sprintf("the file system of %s has not answered for %v", m.queue, m.writer.Busy().Round(time.Second))
	case m.failed != nil:
		return m.failed.Error()
	}
	return ""
}

// Holds returns the number of held tasks of a job, or of all jobs if job is 0; if only is
// not negative, of this task alone.
func (m *mirroring) Holds(job filch.JobID, only int64) (n int64) {
	for i := range m.held {
		s := &m.held[i].launch.Start
		if (job == 0 || s.Job == job) && (only < 0 || int64(s.Index) == only) {
			n++
		}
	}
	return n
}
