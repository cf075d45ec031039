package tasks

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// How often progress is shown: a terminal's line is redrawn, else a plain line is
// printed now and then.
const (
	barEvery   = 100 * time.Millisecond
	plainEvery = 10 * time.Second
	rateOver   = 10 * time.Second // span of the rate
	runsEvery  = time.Second      // interval of asking all nodes for the running tasks
)

// progress shows how far a job of tasks is.
type progress struct {
	job   filch.JobID
	on    bool
	tty   bool
	drawn bool
	began time.Time
	over  chan struct{}

	mu      sync.Mutex // guards the fields below: two goroutines write them
	last    time.Time
	marks   []mark // of the last rateOver, oldest first
	news    launcher.TaskNews
	heard   bool
	running int32
}

// mark is the number of ended tasks at a time.
type mark struct {
	at   time.Time
	done int32
}

func newProgress(job filch.JobID, on bool) *progress {
	return &progress{job: job, on: on, tty: term.IsTerminal(int(os.Stderr.Fd())), began: time.Now(), over: make(chan struct{})}
}

// every is the interval between two draws.
func (p *progress) every() time.Duration {
	if p.tty {
		return barEvery
	}
	return plainEvery
}

// watch asks how many tasks run: only their nodes know, and no news carries the
// number.
func (p *progress) watch(t *client.Tasks) {
	c, err := t.Another()
	if err != nil {
		return // the line lacks the number
	}
	defer c.Close()
	for {
		var j launcher.JobInfo
		if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, p.job.String()); err != nil {
			return
		}
		p.runs(j.Tasks.Running)
		select {
		case <-p.over:
			return
		case <-time.After(max(p.every()/2, runsEvery)):
		}
	}
}

// runs stores the number of running tasks.
func (p *progress) runs(n int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running = n; p.heard && p.news.What != launcher.TasksFinished {
		p.show(p.news, time.Now())
	}
}

// update stores news of the job and redraws the line.
func (p *progress) update(n launcher.TaskNews) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.news, p.heard = n, true
	p.marks = append(p.marks, mark{now, n.Tally.Sum()})
	for len(p.marks) > 2 && now.Sub(p.marks[0].at) > rateOver {
		p.marks = p.marks[1:]
	}
	p.show(n, now)
}

// show draws the line, if the interval has passed.
func (p *progress) show(n launcher.TaskNews, now time.Time) {
	select {
	case <-p.over:
		return
	default:
	}
	if !p.on || now.Sub(p.last) < p.every() && n.What != launcher.TasksFinished {
		return
	}
	p.last = now
	line := p.line(n, now)
	if !p.tty {
		ui.Say(line)
		return
	}
	width, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err == nil && width > 1 && len(line) >= width {
		line = line[:width-1]
	}
	_, _ = os.Stderr.WriteString("\r\x1b[K" + line)
	p.drawn = true
}

// line is the text: tasks done, rate, failures, estimated time left.
func (p *progress) line(n launcher.TaskNews, now time.Time) string {
	done := n.Tally.Sum()
	share := 0.0
	if n.Total > 0 {
		share = float64(done) / float64(n.Total)
	}
	const cells = 20
	full := int(share * cells)
	parts := []string{
		fmt.Sprintf("job %d [%s%s] %d/%d", p.job, strings.Repeat("#", full), strings.Repeat(".", cells-full), done, n.Total),
	}
	if p.running > 0 && n.What != launcher.TasksFinished {
		parts = append(parts, fmt.Sprintf("%d running", p.running))
	}
	if rate := p.rate(now); rate > 0 {
		parts = append(parts, fmt.Sprintf("%.4g/s", rate))
		if left := n.Total - done; left > 0 {
			parts = append(parts, "ends in "+ui.ShortTime(time.Duration(float64(left)/rate*float64(time.Second))))
		}
	}
	if bad := n.Tally.Bad(); bad > 0 {
		parts = append(parts, n.Tally.BadText())
	}
	if n.What == launcher.TasksFinished {
		parts = append(parts, "done in "+ui.ShortTime(now.Sub(p.began)))
	}
	return strings.Join(parts, ", ")
}

func (p *progress) rate(now time.Time) float64 {
	if len(p.marks) < 2 {
		return 0
	}
	first, last := p.marks[0], p.marks[len(p.marks)-1]
	if d := now.Sub(first.at).Seconds(); d > 0 {
		return float64(last.done-first.done) / d
	}
	return 0
}

// hide makes place on a terminal for other lines; the next update draws the line again.
func (p *progress) hide() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		p.drawn = false
		_, _ = os.Stderr.WriteString("\r\x1b[K")
	}
}

// close ends the line on a terminal.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.over:
	default:
		close(p.over)
	}
	if p.drawn {
		p.drawn = false
		_, _ = os.Stderr.WriteString("\n")
	}
}
