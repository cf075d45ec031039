package ends

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/record"
)

// ToldAgain is how often a node repeats its report of ends to a leader without an
// acknowledgment.
const ToldAgain = 300 * time.Millisecond

// tell is a report to a graph's leader, not yet acknowledged.
type tell struct {
	serial uint64
	ends   []message.ToldEnd
	at     time.Duration
}

// told reports recorded ends of a graph's tasks to the leader.
func (r *Recorder) told(j Job, num int32, ends []record.BlockOp, b *record.Block) {
	var list []message.ToldEnd
	for i := range ends {
		t := b.Find(ends[i].Off)
		if t == nil || t.State == 0 {
			continue
		}
		index := num*record.BlockSize + int32(ends[i].Off)
		if ends[i].State == filch.OK && t.By.Node != r.node.Self().Node {
			r.node.Outdone(j.ID(), index)
		}
		list = append(list, message.ToldEnd{Index: index, State: t.State, Bytes: t.Bytes, Took: t.Ran(), By: t.By.Node})
	}
	leader, led := j.Leader()
	if led {
		j.Led(list)
		return
	}
	serial := r.keep(j, list, r.node.Now()+ToldAgain)
	if leader != "" {
		r.node.Send(leader, &message.Told{Job: j.ID(), Serial: serial, Rate: r.node.Rate(), Ends: list})
	}
}

// Lost reports tasks that the records count as lost with a node, if they are of a graph.
func (r *Recorder) Lost(j Job, tasks []int32, by filch.NodeName) {
	if !j.Graph() {
		return
	}
	list := make([]message.ToldEnd, len(tasks))
	for i, index := range tasks {
		list[i] = message.ToldEnd{Index: index, State: filch.Lost, By: by}
	}
	if _, led := j.Leader(); led {
		j.Led(list)
		return
	}
	r.keep(j, list, r.node.Now())
}

func (r *Recorder) keep(j Job, list []message.ToldEnd, at time.Duration) (serial uint64) {
	p := j.Pending()
	serial = r.node.Serial()
	p.tells = append(p.tells, tell{serial: serial, ends: list, at: at})
	r.node.Wake(at)
	return serial
}

// Acknowledged ends a report.
func (p *Pending) Acknowledged(serial uint64) {
	p.tells = slices.DeleteFunc(p.tells, func(t tell) bool { return t.serial == serial })
}

// Again repeats reports without an acknowledgment; the job may have another leader by
// now. Again returns when the next repetition is due.
func (r *Recorder) Again(j Job) (next time.Duration) {
	p, now := j.Pending(), r.node.Now()
	looked := false
	for i := range p.tells {
		t := &p.tells[i]
		if t.at > now {
			continue
		}
		t.at = now + ToldAgain
		if !looked {
			j.Look()
			looked = true
		}
		if leader, led := j.Leader(); led {
			j.Led(t.ends)
			t.ends = nil
		} else if leader != "" {
			r.node.Send(leader, &message.Told{Job: j.ID(), Serial: t.serial, Rate: r.node.Rate(), Ends: t.ends})
		}
	}
	if _, led := j.Leader(); led {
		p.tells = slices.DeleteFunc(p.tells, func(t tell) bool { return t.ends == nil })
	}
	next = filch.Never
	for i := range p.tells {
		next = min(next, p.tells[i].at)
	}
	return next
}
