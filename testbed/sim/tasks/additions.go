package tasks

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// addition is what a host added to an open bag.
type addition struct {
	token, count, base int32
	told               bool // its client heard that it is kept
}

// openBag submits a bag that grows: hosts add lines to it, and some of them
// crash in the middle of that.
func (w *World) openBag(d *engine.Dice) {
	if d.Chance(0.4) {
		return
	}
	id := filch.JobID(len(w.truth.jobs) + 1)
	length := func(r *engine.Dice, _ mtc.Start) time.Duration {
		return r.Between(time.Millisecond, 60*time.Millisecond)
	}
	first := int32(d.N(20))
	s := submit.Job{Job: id, Total: first, Open: true, Lines: linesOf(0, first)}
	s.Spec = record.Spec{Payloads: true, CrashLimit: 100, Once: d.Chance(0.2)}
	w.truth.submitted(s, length)
	at := d.Between(0, time.Second)
	w.At(at, func() { w.Submit(w.alive(), s, length) })
	at += 2500 * time.Millisecond // all submissions are accepted by then
	for k := range 1 + d.N(5) {
		token, count := int32(k+1), int32(1+d.N(100))
		host, crash, back := d.N(len(w.hosts)), d.Chance(0.4), d.Between(500*time.Millisecond, 15*time.Second)
		soon := d.Between(0, 4*time.Millisecond)
		w.At(at, func() {
			if h := w.hosts[host]; !h.Up() || h.seen.dead {
				return
			}
			w.truth.jobs[id].added = append(w.truth.jobs[id].added, addition{token: token, count: count})
			w.Call(host, "add", func(c *mtc.Core, now time.Duration, out *mtc.Out) {
				if err := c.Add(now, id, token, count, linesOf(token, count), out); err != nil {
					panic(err)
				}
			})
			if crash && w.troubled() < (len(w.hosts)-1)/2 {
				w.At(w.Now()+soon, func() { w.crash(host, back) })
			}
		})
		at += d.Between(0, 6*time.Second)
	}
	w.closeBag(id, at+time.Second)
}

// closeBag closes a bag, again and again, as a host that was told may crash.
func (w *World) closeBag(id filch.JobID, at time.Duration) {
	w.At(at, func() {
		if j := w.truth.jobs[id]; j.rec != nil && j.rec.Closed {
			return
		}
		w.Call(w.alive(), "close", func(c *mtc.Core, now time.Duration, out *mtc.Out) { c.Close(now, id, out) })
		w.closeBag(id, at+2*time.Second)
	})
}

// linesOf are the lines of an addition; each says which it is.
func linesOf(token, count int32) (lines [][]byte) {
	for i := range count {
		lines = append(lines, fmt.Appendf(nil, "%d/%d", token, i))
	}
	return lines
}

// line checks that a task that begins was given its own line.
func (t *truth) line(j *job, s mtc.Start) {
	token, base := int32(0), int32(0)
	if j.rec != nil {
		for _, a := range j.rec.Added {
			if s.Index >= a.Base && s.Index < a.Base+a.Count {
				token, base = a.Token, a.Base
			}
		}
	}
	if want := fmt.Sprintf("%d/%d", token, s.Index-base); string(s.Payload) != want {
		t.breach("task %d.%d was given the line %q, want %q", s.Job, s.Index, s.Payload, want)
	}
}

// addedOne takes in that a client was told that an addition is kept.
func (t *truth) addedOne(k report.Tell) {
	j := t.jobs[k.Job]
	for i := range j.added {
		if a := &j.added[i]; a.token == k.Token {
			a.told, a.base = true, k.Base
		}
	}
}

// kept checks that no task that a client was told of was given up for want of
// its line.
func (t *truth) kept(id filch.JobID, j *job) {
	for _, a := range j.added {
		for i := a.base; a.told && i < a.base+a.count; i++ {
			if j.ended[i] == filch.Lost && j.starts[i] == 0 && !j.Spec.Once {
				t.breach("task %d.%d was told to be kept, and is lost", id, i)
			}
		}
	}
}
