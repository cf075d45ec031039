package children

import (
	"slices"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// lookWait is how long a runner may take to answer a look: a runner answers between two
// forks.
const lookWait = time.Second

// looks holds the looks at the output of running tasks that the runners have not
// answered, and the readers that wait for output. Looks go to the runners without a turn
// of the loop.
type looks struct {
	mu    sync.Mutex // guards all below
	token uint64
	links map[filch.JobID][]*wire.Conn // of the runners that have the order of a job
	open  map[uint64]chan launcher.TaskSeen
	waits map[launcher.TaskSpan][]chan struct{}
	past  []filch.JobID // jobs without a task to come, whose links stay; the oldest first
}

// pastMax bounds the jobs whose links stay behind the last task. The runner may not have written the
// last output yet: readers that hear of the end of the job ask the runner, which writes first.
const pastMax = 256

func newLooks() *looks {
	return &looks{links: map[filch.JobID][]*wire.Conn{}, open: map[uint64]chan launcher.TaskSeen{}, waits: map[launcher.TaskSpan][]chan struct{}{}}
}

// begin opens a look: a token for each link to a runner with tasks of the job.
func (l *looks) begin(job filch.JobID) (links []*wire.Conn, tokens []uint64, answers chan launcher.TaskSeen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	links = slices.Clone(l.links[job])
	answers = make(chan launcher.TaskSeen, len(links))
	for range links {
		l.token++
		l.open[l.token] = answers
		tokens = append(tokens, l.token)
	}
	return links, tokens, answers
}

func (l *looks) end(tokens []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tokens {
		delete(l.open, t)
	}
}

// onSeen hands an answer to the look.
func (l *looks) onSeen(s launcher.TaskSeen) {
	l.mu.Lock()
	ch := l.open[s.Token]
	delete(l.open, s.Token)
	l.mu.Unlock()
	if ch != nil {
		ch <- s // has space for every answer
	}
}

// onStir wakes the readers of a span.
func (l *looks) onStir(span launcher.TaskSpan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ch := range l.waits[span] {
		close(ch)
	}
	delete(l.waits, span)
}

// onOutput wakes the readers of a task.
func (l *looks) onOutput(id launcher.TaskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waits) > 0 {
		l.wake(func(span launcher.TaskSpan) bool { return span.Has(id.Job, id.Index) })
	}
}

// ordered notes that a runner has got the order of a job, and wakes the readers of the
// job: the runner may now have tasks.
func (l *looks) ordered(job filch.JobID, link *wire.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.past = slices.DeleteFunc(l.past, func(id filch.JobID) bool { return id == job })
	if !slices.Contains(l.links[job], link) {
		l.links[job] = append(l.links[job], link)
	}
	l.wake(func(span launcher.TaskSpan) bool { return span.Job == job })
}

// forget notes that no runner has the order of a job any more.
func (l *looks) forget(job filch.JobID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.links[job]) == 0 || slices.Contains(l.past, job) {
		return
	}
	if l.past = append(l.past, job); len(l.past) > pastMax {
		delete(l.links, l.past[0])
		l.past = slices.Delete(l.past, 0, 1)
	}
}

// lost notes that a runner and its watches are gone, and wakes all readers.
func (l *looks) lost(link *wire.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for job, all := range l.links {
		if left := slices.DeleteFunc(all, func(c *wire.Conn) bool { return c == link }); len(left) > 0 {
			l.links[job] = left
		} else {
			delete(l.links, job)
		}
	}
	l.wake(func(launcher.TaskSpan) bool { return true })
}

// wake wakes readers, with the lock held.
func (l *looks) wake(which func(launcher.TaskSpan) bool) {
	for span, all := range l.waits {
		if which(span) {
			for _, ch := range all {
				close(ch)
			}
			delete(l.waits, span)
		}
	}
}

// AwaitOutput returns a channel that closes when tasks of the span may have new output,
// after a look with Watch. A call of stop ends the wait.
func (rs *Runners) AwaitOutput(span launcher.TaskSpan) (news <-chan struct{}, stop func()) {
	l, ch := rs.looks, make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits[span] = append(l.waits[span], ch)
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if left := slices.DeleteFunc(l.waits[span], func(c chan struct{}) bool { return c == ch }); len(left) > 0 {
			l.waits[span] = left
		} else {
			delete(l.waits, span)
		}
	}
}

// Look asks the runners with tasks of a job for output, and returns the answers; whole
// means that every runner has answered.
func (rs *Runners) Look(q launcher.TaskLook) (seen []launcher.TaskSeen, whole bool) {
	links, tokens, answers := rs.looks.begin(q.Span.Job)
	defer func() { seen = append(seen, rs.gangs.look(&q)...) }()
	q.Limit /= int32(max(len(links), 1))
	for i, link := range links {
		q.Token = tokens[i]
		if link.Write(wire.KindTaskLook, 0, &q) == nil {
			_ = link.Flush()
		}
	}
	defer rs.looks.end(tokens)
	timer := time.NewTimer(lookWait)
	defer timer.Stop()
	for range tokens {
		select {
		case s := <-answers:
			seen = append(seen, s)
		case <-timer.C:
			return seen, false
		case <-rs.in.Context().Done():
			return seen, false
		}
	}
	return seen, true
}
