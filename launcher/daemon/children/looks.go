package children

import (
	"slices"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/wire"
)

// lookWait is how long a runner may take to answer a look: a runner answers between two
// forks.
const lookWait = time.Second

// looks holds the looks at the output of running tasks that the runners have not
// answered, and the readers that wait for output.
type looks struct {
	mu    sync.Mutex // guards all below
	token uint64
	open  map[uint64]chan launcher.TaskSeen
	waits map[launcher.TaskSpan][]chan struct{}
}

func newLooks() *looks {
	return &looks{open: map[uint64]chan launcher.TaskSeen{}, waits: map[launcher.TaskSpan][]chan struct{}{}}
}

// begin opens a look of n answers.
func (l *looks) begin(n int) (tokens []uint64, answers chan launcher.TaskSeen) {
	answers = make(chan launcher.TaskSeen, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		l.token++
		l.open[l.token] = answers
		tokens = append(tokens, l.token)
	}
	return tokens, answers
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

// wake wakes the readers of a job, or with 0 all readers: another runner may now have
// tasks, or a runner and its watches are gone.
func (l *looks) wake(job filch.JobID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for span, all := range l.waits {
		if job == 0 || span.Job == job {
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
	var tokens []uint64
	var answers chan launcher.TaskSeen
	if rs.in.Ask(inputs.LoopWait, func(*inputs.Turn) {
		var with []*runnerProcess
		for _, r := range rs.all {
			if r.conn != nil && r.ordered[q.Span.Job] {
				with = append(with, r)
			}
		}
		tokens, answers = rs.looks.begin(len(with))
		q.Limit /= int32(max(len(with), 1))
		for i, r := range with {
			q.Token = tokens[i]
			_ = r.conn.Write(wire.KindTaskLook, 0, &q)
			rs.keepers.links.Touch(r.conn)
		}
	}) != nil {
		return nil, false
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
