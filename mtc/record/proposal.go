package record

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Op is the operation of a [Proposal].
type Op uint8

// The operations.
const (
	OpMerge Op = iota + 1
	OpLookup
	OpWatch
	OpUnwatch
)

// Proposal is an operation on a  A second proposal with the same tag is the same
// operation again: the first answer was lost or unknown.
type Proposal struct {
	Tag   uint64
	Op    Op
	Key   string
	Kind  RecordKind
	Delta []byte
	// Durable delays the answer until all holders of the record have the change on disk.
	Durable bool
}

// AnswerStatus is the result of a proposal.
type AnswerStatus uint8

// The answers.
const (
	AnswerDone AnswerStatus = iota
	AnswerAbsent
	AnswerUnknown // unknown or unavailable: the asker proposes the operation again
	AnswerInvalid // the store refused the operation for good
)

// Answer is the store's answer to a proposal. Value is a merge's reply, or the record of
// a lookup or a watch.
type Answer struct {
	Status AnswerStatus
	Value  []byte
}

// The wait before a proposal whose outcome is unknown is repeated.
const (
	proposeAgain    = 20 * time.Millisecond
	proposeAgainMax = time.Second
)

// pending is a proposal under way. Then receives the answer once, or every answer of a
// watch.
type pending struct {
	op    Proposal
	then  func(a Answer)
	tries int
	again time.Duration // filch.Never: waiting for the answer
}

// Proposals are the proposals of a node under way. A proposal is repeated until the
// outcome is known: the store may have executed an operation whose answer was lost.
type Proposals struct {
	last  uint64
	open  map[uint64]*pending
	retry []*pending
	at    time.Duration // of the next repetition
}

// NewProposals makes Proposals without any.
func NewProposals() Proposals {
	return Proposals{open: make(map[uint64]*pending), at: filch.Never}
}

// Begin keeps the callback for the answer, and returns the proposal with its tag.
func (k *Proposals) Begin(p Proposal, then func(a Answer)) Proposal {
	p.Tag = k.Serial()
	k.open[p.Tag] = &pending{op: p, then: then, again: filch.Never}
	return p
}

// Serial is a number that this incarnation never used before: neither for a proposal nor
// for a report.
func (k *Proposals) Serial() uint64 {
	k.last++
	return k.last
}

// Next is the number that the next call of [Proposals.Serial] returns.
func (k *Proposals) Next() uint64 { return k.last + 1 }

// Open is the number of proposals under way.
func (k *Proposals) Open() int { return len(k.open) }

// Answered takes in an answer, and returns the callback; nil if the outcome is unknown or
// nobody waits for the answer.
func (k *Proposals) Answered(now time.Duration, tag uint64, a Answer) (then func(a Answer)) {
	p := k.open[tag]
	if p == nil {
		return nil
	}
	if a.Status == AnswerUnknown {
		if p.again == filch.Never {
			p.again = now + min(proposeAgain<<min(p.tries, 8), proposeAgainMax)
			p.tries++
			k.retry = append(k.retry, p)
			k.at = min(k.at, p.again)
		}
		return nil
	}
	if p.op.Op != OpWatch {
		delete(k.open, tag)
	}
	if p.again != filch.Never {
		k.retry = slices.DeleteFunc(k.retry, func(q *pending) bool { return q == p })
	}
	p.again, p.tries = filch.Never, 0
	return p.then
}

// At is when [Proposals.Again] is due.
func (k *Proposals) At() time.Duration { return k.at }

// Again appends the proposals that are due for a repetition.
func (k *Proposals) Again(now time.Duration, out []Proposal) []Proposal {
	if k.at > now {
		return out
	}
	k.at = filch.Never
	left := k.retry[:0]
	for _, p := range k.retry {
		if p.again > now {
			left = append(left, p)
			k.at = min(k.at, p.again)
			continue
		}
		p.again = filch.Never
		out = append(out, p.op)
	}
	clear(k.retry[len(left):])
	k.retry = left
	return out
}

// Unwatch forgets a watch, and returns the proposal that ends the watch at the store.
func (k *Proposals) Unwatch(tag uint64) Proposal {
	p := Proposal{Tag: tag, Op: OpUnwatch}
	if w := k.open[tag]; w != nil {
		p.Key = w.op.Key
	}
	delete(k.open, tag)
	k.retry = slices.DeleteFunc(k.retry, func(q *pending) bool { return q.op.Tag == tag })
	return p
}
