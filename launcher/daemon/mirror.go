package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/mirror"
	"github.com/filch-hpc/filch/mtc"
)

// mirroring is this node's part of the queue's mirror: its file, and the tasks
// that wait for it, since they run once. All but queue and writer is the loop's.
type mirroring struct {
	d      *Daemon
	queue  mirror.Queue   // "": nothing is mirrored
	writer *mirror.Writer // nil: the same
	held   []heldTask
	halt   context.CancelFunc
	ended  chan struct{}
	failed error // the last; nil: it is written
	hung   bool  // its file system did not answer in time, and that was told
	slow   time.Duration
	wait   time.Duration // for its end
}

// heldTask is to be started when all up to a number is durable.
type heldTask struct {
	number uint64
	launch launcher.TaskLaunch
}

// doubtTime is how long the end of a task is held that was killed by nobody of
// ours, where the queue may go on elsewhere. The end of an allocation signals
// all processes, in no order: what it did to a task must not be its end.
const doubtTime = 5 * time.Second

// doubt reports whether an end is held. It is told after a while if this
// launcher still lives then, and is not about to go.
func (m *mirroring) doubt(e launcher.TaskEnd) bool {
	killed := e.Kind == launcher.CauseSignal && (e.Code == sigTerm || e.Code == sigKill) ||
		e.Kind == launcher.CauseExit && (e.Code == filch.ExitSignalBase+sigTerm || e.Code == filch.ExitSignalBase+sigKill)
	if !m.on() || e.Told || !killed {
		return false
	}
	d := m.d
	time.AfterFunc(doubtTime, func() {
		d.post(func(t *turn) {
			if !d.loop.removal {
				d.runners.tell(t, []launcher.TaskEnd{e})
			}
		})
	})
	return true
}

const (
	mirrorSlow = 10 * time.Second // after which it is told that the mirror's file system does not answer
	mirrorEnd  = 10 * time.Second // that a launcher that ends waits for its mirror
)

func newMirroring(d *Daemon) *mirroring {
	return &mirroring{d: d, queue: mirror.Queue(d.cfg.Mirror), ended: make(chan struct{}), slow: mirrorSlow, wait: mirrorEnd}
}

func (m *mirroring) on() bool { return m.queue != "" }

// begin starts to write.
func (m *mirroring) begin() {
	if !m.on() {
		close(m.ended)
		return
	}
	d := m.d
	name := fmt.Sprintf("%s-%d", d.self, d.cfg.Node.Incarnation)
	m.writer = mirror.NewWriter(m.queue, name, mirror.Config{
		SlowAfter: m.slow, Slow: func() { d.post(func(*turn) { m.hangs() }) },
		Synced: func(upto uint64, closed bool) { d.post(func(t *turn) { m.synced(upto, closed) }) },
		Failed: func(err error) { d.post(func(*turn) { m.fails(err) }) },
		Lost:   func() { d.post(func(t *turn) { t.node.MirrorAgain(t.now) }) },
	})
	// It writes until the loop has ended, which has more to say. It is not among
	// what the daemon's end waits for without a limit: see end.
	ctx, stop := context.WithCancel(context.WithoutCancel(d.ctx))
	m.halt = stop
	go func() {
		defer close(m.ended)
		m.writer.Run(ctx)
	}()
}

// add takes lines of the brain.
func (m *mirroring) add(lines []byte) {
	if m.writer != nil && len(lines) > 0 {
		m.writer.Add(lines, true)
	}
}

// end writes the last lines, as far as the file system lets it.
func (m *mirroring) end(lines []byte) {
	if m.writer == nil {
		return
	}
	m.add(lines)
	m.halt()
	select {
	case <-m.ended:
	case <-time.After(m.wait):
		m.d.fault("the end of the queue's mirror is missing", errors.New("its file system does not answer"), "queue", string(m.queue))
	}
}

// launch starts a task; one that runs once waits until the mirror tells of it.
func (m *mirroring) launch(l *launcher.TaskLaunch) {
	if m.writer == nil || !l.Start.Spec.Once {
		m.d.runners.launch(l)
		return
	}
	by := mtc.Owner{Node: m.d.self, Incarnation: m.d.cfg.Node.Incarnation}
	line := mtc.MirrorStart(nil, l.Start.Job, l.Start.Index, l.Start.Attempt, by)
	m.held = append(m.held, heldTask{m.writer.Add(line, false), *l})
}

// stop ends a task; one that is held never begins.
func (m *mirroring) stop(s launcher.TaskStop) {
	for i := range m.held {
		if m.held[i].launch.Serial == s.Serial {
			m.held = append(m.held[:i], m.held[i+1:]...)
			m.d.runners.owed = append(m.d.runners.owed, launcher.TaskEnd{
				Serial: s.Serial, Kind: launcher.CauseCancel, Code: filch.ExitCancelled, Told: true,
				Ended: time.Now().UnixNano(), Text: "not started: it was stopped",
			})
			return
		}
	}
	m.d.runners.stop(s)
}

// synced starts what waited for it. When another instance goes on with the
// queue, it has these tasks as lost.
func (m *mirroring) synced(upto uint64, closed bool) {
	if m.failed != nil || m.hung {
		m.failed, m.hung = nil, false
		m.d.watch.Log().Info("the queue's mirror is written again", "queue", string(m.queue))
	}
	n := 0
	for n < len(m.held) && m.held[n].number <= upto {
		n++
	}
	due := m.held[:n]
	m.held = m.held[n:]
	for i := range due {
		if !closed {
			m.d.runners.launch(&due[i].launch)
			continue
		}
		m.d.runners.owed = append(m.d.runners.owed, launcher.TaskEnd{
			Serial: due[i].launch.Serial, Kind: launcher.CauseNodeLost, Code: filch.ExitNodeLost,
			Ended: time.Now().UnixNano(), Text: "not started: another instance goes on with the queue",
		})
	}
	if closed && n > 0 {
		m.d.fault("cannot start what runs once", errors.New("another instance goes on with the queue"), "queue", string(m.queue))
	}
}

// fails notes that the mirror is behind.
func (m *mirroring) fails(err error) {
	if m.failed == nil {
		m.d.fault("cannot write the queue's mirror", err, "queue", string(m.queue), "waiting", len(m.held))
	}
	m.failed = err
}

// hangs notes that nothing is heard of the mirror's file system.
func (m *mirroring) hangs() {
	if !m.hung {
		m.hung = true
		m.d.watch.Log().Warn("the file system of the queue's mirror does not answer", "took", m.writer.Busy(), "queue", string(m.queue), "waiting", len(m.held))
	}
}

// trouble is why the mirror is behind, "" when it is not.
func (m *mirroring) trouble() string {
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

// holds are the tasks of a job, or of all jobs if it is 0, that wait.
func (m *mirroring) holds(job filch.JobID) (n int64) {
	for i := range m.held {
		if job == 0 || m.held[i].launch.Start.Job == job {
			n++
		}
	}
	return n
}
