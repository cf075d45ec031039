package progress

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

// Bar is the line of a job of tasks. [New] begins the line, [Bar.Watch] and [Bar.Update]
// draw it, and [Bar.Close] ends it.
type Bar struct {
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

// New begins the line of a job; with on unset, nothing is drawn.
func New(job filch.JobID, on bool) *Bar {
	return &Bar{job: job, on: on, tty: term.IsTerminal(int(os.Stderr.Fd())), began: time.Now(), over: make(chan struct{})}
}

// every is the interval between two draws.
func (b *Bar) every() time.Duration {
	if b.tty {
		return barEvery
	}
	return plainEvery
}

// Watch asks how many tasks run: only their nodes know, and no news carries the
// number.
func (b *Bar) Watch(t *client.Tasks) {
	c, err := t.Another()
	if err != nil {
		return // the line lacks the number
	}
	defer c.Close()
	for {
		var j launcher.JobInfo
		if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, b.job.String()); err != nil {
			return
		}
		b.runs(j.Tasks.Running, time.Duration(j.Elapsed*float64(time.Second)))
		select {
		case <-b.over:
			return
		case <-time.After(max(b.every()/2, runsEvery)):
		}
	}
}

// runs stores the number of running tasks, and the age of a job that is older than the
// command.
func (b *Bar) runs(n int32, elapsed time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := time.Now().Add(-elapsed); at.Before(b.began) {
		b.began = at
	}
	if b.running = n; b.heard && b.news.What != launcher.TasksFinished {
		b.show(b.news, time.Now())
	}
}

// Update stores news of the job and redraws the line.
func (b *Bar) Update(n launcher.TaskNews) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.news, b.heard = n, true
	b.marks = append(b.marks, mark{now, n.Tally.Sum()})
	for len(b.marks) > 2 && now.Sub(b.marks[0].at) > rateOver {
		b.marks = b.marks[1:]
	}
	b.show(n, now)
}

// show draws the line, if the interval has passed.
func (b *Bar) show(n launcher.TaskNews, now time.Time) {
	select {
	case <-b.over:
		return
	default:
	}
	if !b.on || now.Sub(b.last) < b.every() && n.What != launcher.TasksFinished {
		return
	}
	b.last = now
	if !b.tty {
		ui.Say(b.line(n, now, 0))
		return
	}
	width, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		width = 0
	}
	_, _ = os.Stderr.WriteString("\r\x1b[K" + b.line(n, now, width))
	b.drawn = true
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
func (b *Bar) line(n launcher.TaskNews, now time.Time, width int) (text string) {
	for _, f := range faces {
		if text = b.text(&f, n, now); width <= 0 || len(text) < width {
			return text
		}
	}
	return text[:width-1]
}

// text tells the tasks done, the rate, the failures and the estimated time left.
func (b *Bar) text(f *face, n launcher.TaskNews, now time.Time) string {
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
		first = fmt.Sprintf("job %d %s", b.job, first)
	}
	parts := []string{first}
	over := n.What == launcher.TasksFinished
	if b.running > 0 && f.running && !over {
		parts = append(parts, fmt.Sprintf("%d running", b.running))
	}
	if age := now.Sub(b.began).Truncate(time.Second); age > 0 && f.elapsed && !over {
		parts = append(parts, "for "+filch.ShortTime(age))
	}
	if rate := b.rate(now); rate > 0 {
		parts = append(parts, rateText(rate))
		if left := n.Total - done; left > 0 && f.ends {
			parts = append(parts, "ends in "+filch.ShortTime(time.Duration(float64(left)/rate*float64(time.Second))))
		}
	}
	if over && f.ends {
		parts = append(parts, "done in "+filch.ShortTime(now.Sub(b.began)))
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

func (b *Bar) rate(now time.Time) float64 {
	if len(b.marks) < 2 {
		return 0
	}
	first, last := b.marks[0], b.marks[len(b.marks)-1]
	if d := now.Sub(first.at).Seconds(); d > 0 {
		return float64(last.done-first.done) / d
	}
	return 0
}

// Hide makes place on a terminal for other lines; the next update draws the line again.
func (b *Bar) Hide() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn {
		b.drawn = false
		_, _ = os.Stderr.WriteString("\r\x1b[K")
	}
}

// Close ends the line on a terminal.
func (b *Bar) Close() { b.end("\n") }

// Drop takes the line off a terminal: an error with the same counts follows.
func (b *Bar) Drop() { b.end("\r\x1b[K") }

func (b *Bar) end(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.over:
	default:
		close(b.over)
	}
	if b.drawn {
		b.drawn = false
		_, _ = os.Stderr.WriteString(text)
	}
}

// Show shows the progress of a job of tasks until the job has ended, or stop is
// called; stop is told whether an error with the same counts follows.
func Show(dial func() (*client.Client, error), job filch.JobID) (stop func(told bool)) {
	c, err := dial()
	if err != nil {
		return func(bool) {} // the command waits without progress
	}
	t, err := c.FollowTasks(job)
	if err != nil {
		c.Close()
		return func(bool) {}
	}
	bar := New(job, true)
	over := make(chan struct{})
	go bar.Watch(t)
	go func() {
		defer close(over)
		for {
			news, err := t.Next()
			if err != nil || news.What == launcher.TasksRefused {
				return
			}
			if news.What == launcher.TasksProgress || news.What == launcher.TasksFinished {
				bar.Update(news)
			}
			if news.What == launcher.TasksFinished {
				return
			}
		}
	}()
	return func(told bool) {
		select {
		case <-over: // the last line is drawn
		case <-time.After(lastNews):
		}
		t.Close()
		<-over
		if told {
			bar.Drop()
		}
		bar.Close()
	}
}

// lastNews bounds the wait for the news of the end of a job that is known to have ended.
const lastNews = 500 * time.Millisecond
