package logs

import "time"

// passer is a [Sink] that prints the output of a task when all tasks before have ended.
type passer interface {
	Sink
	// Passed tells that all output of all tasks before upto has come.
	Passed(upto int32) error
}

// passing is the work after news of [Reader.Passed]: every node is asked once more, since
// output of the ended tasks may be on its way.
type passing struct {
	round int
	upto  int32 // of the round under way
	next  int32 // news since; 0 none
	busy  bool  // news is handled
	begun bool  // the nodes are asked
}

// onPassed takes news that all tasks before upto have ended.
func (r *Reader) onPassed(upto int32) error {
	r.passing.next = upto
	if r.passing.busy {
		return nil
	}
	r.passing.busy, r.passing.upto, r.passing.next = true, upto, 0
	// Nodes that have joined since the last look may have run tasks.
	return r.askNodes(func() {
		r.passing.round++
		r.passing.begun = true
		for _, j := range r.jobs {
			for _, p := range j.parts {
				if p.held {
					r.abandon(p)
				}
				p.again = time.Time{}
			}
		}
	})
}

// endRound tells the sink, once every node has answered.
func (r *Reader) endRound() error {
	s := &r.passing
	if !s.begun {
		return nil
	}
	for _, j := range r.jobs {
		for _, name := range r.names {
			if p := j.parts[name]; p == nil || !p.over && !p.lost && p.round < s.round {
				return nil
			}
		}
	}
	s.busy, s.begun = false, false
	if err := r.Sink.(passer).Passed(s.upto); err != nil || s.next == 0 {
		return err
	}
	return r.onPassed(s.next)
}
