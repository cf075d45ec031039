package tasks

import (
	"fmt"
	"math"
	"os"
	"strconv"
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
	over  chan struct{}

	mu      sync.Mutex // guards the fields below: two goroutines write them
	began   time.Time
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
		p.runs(j.Tasks.Running, time.Duration(j.Elapsed*float64(time.Second)))
		select {
		case <-p.over:
			return
		case <-time.After(max(p.every()/2, runsEvery)):
		}
	}
}

// runs stores the number of running tasks, and the age of a job that is older than the
// command.
func (p *progress) runs(n int32, elapsed time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := time.Now().Add(-elapsed); at.Before(p.began) {
		p.began = at
	}
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
	if !p.tty {
		ui.Say(p.line(n, now, 0))
		return
	}
	width, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		width = 0
	}
	_, _ = os.Stderr.WriteString("\r\x1b[K" + p.line(n, now, width))
	p.drawn = true
}

// face is a form of the line: the cells of the bar, and the parts that the line has.
type face struct {
	cells                                      int
	elapsed, running, job, ends, counts, kinds bool
}

// faces are the forms of the line, from the longest to the shortest: the terminal gets the
// first that fits. All forms tell the rate and the failures.
var faces = []face{
	{cells: 20, elapsed: true, running: true, job: true, ends: true, counts: true, kinds: true},
	{cells: 10, elapsed: true, running: true, job: true, ends: true, counts: true, kinds: true},
	{cells: 10, running: true, job: true, ends: true, counts: true, kinds: true},
	{running: true, job: true, ends: true, counts: true, kinds: true},
	{job: true, ends: true, counts: true, kinds: true},
	{ends: true, counts: true, kinds: true},
	{ends: true, counts: true},
	{counts: true, kinds: true},
	{counts: true},
	{},
}

// line is the text for a terminal with that many columns, or 0 for no terminal. The last
// column stays empty: some terminals wrap there.
func (p *progress) line(n launcher.TaskNews, now time.Time, width int) (text string) {
	for _, f := range faces {
		if text = p.text(&f, n, now); width <= 0 || len(text) < width {
			return text
		}
	}
	return text[:width-1]
}

// text tells the tasks done, the rate, the failures and the estimated time left.
func (p *progress) text(f *face, n launcher.TaskNews, now time.Time) string {
	done := n.Tally.Sum()
	share := 0.0
	if n.Total > 0 {
		share = float64(done) / float64(n.Total)
	}
	first := fmt.Sprintf("%d%%", int(100*share))
	if f.counts {
		first = fmt.Sprintf("%d/%d", done, n.Total)
	}
	if full := int(share * float64(f.cells)); f.cells > 0 {
		first = "[" + strings.Repeat("#", full) + strings.Repeat(".", f.cells-full) + "] " + first
	}
	if f.job {
		first = fmt.Sprintf("job %d %s", p.job, first)
	}
	parts := []string{first}
	over := n.What == launcher.TasksFinished
	if p.running > 0 && f.running && !over {
		parts = append(parts, fmt.Sprintf("%d running", p.running))
	}
	if age := now.Sub(p.began).Truncate(time.Second); age > 0 && f.elapsed && !over {
		parts = append(parts, "for "+filch.ShortTime(age))
	}
	if rate := p.rate(now); rate > 0 {
		parts = append(parts, rateText(rate))
		if left := n.Total - done; left > 0 && f.ends {
			parts = append(parts, "ends in "+filch.ShortTime(time.Duration(float64(left)/rate*float64(time.Second))))
		}
	}
	if over && f.ends {
		parts = append(parts, "done in "+filch.ShortTime(now.Sub(p.began)))
	}
	if bad := n.Tally.Bad(); bad > 0 && f.kinds {
		parts = append(parts, n.Tally.BadText())
	} else if bad > 0 {
		parts = append(parts, fmt.Sprintf("%d bad", bad))
	}
	return strings.Join(parts, ", ")
}

// rateText writes a rate with three digits or more: a second, or an hour if tasks end
// seldom.
func rateText(rate float64) string {
	switch {
	case rate >= 100:
		return fmt.Sprintf("%.0f/s", rate)
	case rate >= 0.01:
		return fmt.Sprintf("%.3g/s", rate)
	}
	return strconv.FormatFloat(math.Round(rate*3600*1000)/1000, 'f', -1, 64) + "/h"
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
