package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/history"
)

// pastJobs hands the ends of this node's jobs to the history on disk.
type pastJobs struct {
	d      *Daemon
	writer *history.Writer // nil: the launcher keeps no history
	halt   context.CancelFunc
	ended  chan struct{}
	closed bool // no more jobs of tasks: see cancelled; the loop's
}

// pastEnd is how long an ending launcher waits for the history.
const pastEnd = 5 * time.Second

func newPast(d *Daemon) *pastJobs { return &pastJobs{d: d, ended: make(chan struct{})} }

// begin starts the writer. The daemon's end waits without a limit for other goroutines, not
// for this one: see end.
func (p *pastJobs) begin() {
	d := p.d
	if d.cfg.History == "" {
		return
	}
	name := fmt.Sprintf("%s-%s-%x", d.cfg.Dir.Instance, d.in.Self, d.in.Began.UnixNano())
	p.writer = history.NewWriter(d.cfg.History, name, p.onLost)
	ctx, stop := context.WithCancel(context.WithoutCancel(d.in.Context()))
	p.halt = stop
	go func() {
		defer close(p.ended)
		p.writer.Run(ctx)
	}()
}

// trouble says why ends of jobs are not in the history, and how many; "" is none.
func (p *pastJobs) trouble() (why string, ends int) {
	if p.writer == nil {
		return "", 0
	}
	if ends, why = p.writer.Unwritten(); why == "" {
		return "", 0
	}
	return why, ends
}

// onLost tells of entries that are missing on disk.
func (p *pastJobs) onLost(lost int, why error) {
	p.d.in.Watch.Event(events.Event{Kind: events.HistoryLost, Count: int64(lost), Reason: why.Error()})
	p.d.in.Watch.Log().Warn("the history of jobs is not written", "err", why.Error(), "jobs", lost, "folder", p.d.cfg.History)
}

// add hands on the ends of a turn.
func (p *pastJobs) add(list []launcher.PastJob) {
	if p.writer == nil || len(list) == 0 {
		return
	}
	now := time.Now().UnixNano()
	for i := range list {
		if p.closed && list[i].Info.Kind != "run" {
			continue
		}
		p.writer.Add(&history.Entry{
			Version: history.Version, Instance: p.d.cfg.Dir.Instance, UUID: p.d.cfg.Node.Instance, Ended: now, Again: list[i].Again, Job: list[i].Info,
		})
	}
}

// cancelled adds the jobs of tasks that this node leads and that end with the instance; on
// the loop. What happens to their tasks from now on is the work of filch down, and no end.
func (p *pastJobs) cancelled(t *inputs.Turn) {
	if p.closed {
		return
	}
	list := t.Node.Led(time.Now().UnixNano())
	past := make([]launcher.PastJob, len(list))
	for i := range list {
		list[i].GoesDown()
		past[i].Info = list[i]
	}
	p.add(past)
	p.closed = true
}

// end writes the last entries, within the wait for the file system.
func (p *pastJobs) end() {
	if p.writer == nil {
		return
	}
	p.halt()
	timer := time.NewTimer(pastEnd)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		n, _ := p.writer.Unwritten()
		p.onLost(n, fmt.Errorf("the file system of %s does not answer", p.d.cfg.History))
	}
}
