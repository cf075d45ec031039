package sim

import "time"

// event is something that happens to a host at a moment. Body is a
// launcher.Message, a keeper's word, or what its kind says.
type event struct {
	at   time.Duration
	seq  uint64 // order of making, which breaks ties
	kind eventKind
	from int32
	to   int32
	body any
}

type eventKind uint8

const (
	evMessage eventKind = iota // body from another host
	evServe                    // the host's cpu is free for its next input
	evWake                     // a Node's deadline
	evKeeper                   // body from a keeper of the host
	evChild                    // something happens inside a keeper: body is a *step
	evCall                     // body is a call of another method of the Node
	evPeer                     // the failure detector tells the host of another
	evSubmit                   // body is a *job
	evDo                       // body is a func(): faults and the detector's own clockwork
)

// queue is a 4-ary heap of events in the total order (at, seq).
type queue struct {
	heap []event
	seq  uint64
}

func before(a, b *event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	h := q.heap
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !before(&e, &h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

func (q *queue) pop() event {
	h := q.heap
	top := h[0]
	last := len(h) - 1
	e := h[last]
	h[last] = event{}
	h = h[:last]
	q.heap = h
	if last == 0 {
		return top
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= last {
			break
		}
		least := first
		for k := first + 1; k < min(first+4, last); k++ {
			if before(&h[k], &h[least]) {
				least = k
			}
		}
		if !before(&h[least], &e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
	return top
}
