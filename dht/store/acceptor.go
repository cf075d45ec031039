package store

import (
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/varint"
)

// acceptor is the state of this node as an acceptor of the register (CASPaxos, where a
// proposal changes the value held by a majority). Promises and accepted values are on the
// disk before any answer leaves.
type acceptor struct {
	*input
	disk    *disk
	peers   *peers
	view    *view
	network *network
	sync    *rosterSync
	images  *images
	vote
	recall vote // left on a damaged disk; not valid as a promise
}

// vote is the state of an acceptor.
type vote struct {
	generation uint64 // 0: this node is no acceptor
	promised   message.Ballot
	accepted   message.Ballot
	value      *roster.Roster
}

const (
	diskPromise = "seat/promise"
	diskValue   = "seat/value"
	diskRecall  = "seat/recall" // the last value of a former acceptor
)

func (a *acceptor) logPromise() {
	a.disk.log(diskPromise, a.promise())
}

// logValue logs an accepted value. The value goes to the log before the promise: if
// the log ends between the two, restore uses the ballot of the value as the
// promise. A promise of a generation without a value would cost the node the place as an
// acceptor, and the value accepted in the generation before.
func (a *acceptor) logValue() {
	a.disk.log(diskValue, a.image())
	a.logPromise()
}

// promise returns the log entry of an acceptor's promise.
func (x *vote) promise() []byte {
	c := varint.Encoder(nil)
	x.codePromise(&c)
	return c.B
}

func (x *vote) codePromise(c *varint.Coder) {
	c.Uint(&x.generation)
	x.promised.Code(c)
}

// image returns the log entry of an acceptor's value.
func (x *vote) image() []byte {
	c := varint.Encoder(nil)
	x.codeValue(&c, x.value.Since(nil))
	return c.B
}

func (x *vote) codeValue(c *varint.Coder, value *roster.Delta) {
	c.Uint(&x.generation)
	x.accepted.Code(c)
	value.Code(c)
}

// decodeValue decodes an image; false if the image is malformed.
func decodeValue(image []byte) (x vote, ok bool) {
	c, value := varint.Decoder(image), &roster.Delta{}
	if x.codeValue(&c, value); !c.Bad {
		x.value = value.Applied(nil)
	}
	return x, x.value != nil
}

// accepts reports whether this node is an acceptor of the generation, and answers the
// proposer if not.
func (a *acceptor) accepts(p *peer, generation uint64, b message.Ballot) bool {
	switch {
	case a.disk.reason != "":
		return false
	case a.view.roster != nil && generation < a.view.roster.Generation:
		a.sync.tell(p) // the generation is over
		return false
	case a.generation != generation:
		a.network.send(p, &message.Refuse{Generation: generation, Ballot: b, NoAcceptor: true}, 0)
		return false
	}
	return true
}

func (a *acceptor) onPrepare(p *peer, m *message.Prepare) {
	if !a.accepts(p, m.Generation, m.Ballot) {
		return
	}
	if m.Ballot.Less(a.promised) {
		a.network.send(p, &message.Refuse{Generation: m.Generation, Ballot: m.Ballot, Promised: a.promised}, 0)
		return
	}
	if a.promised != m.Ballot {
		a.promised = m.Ballot
		a.logPromise()
	}
	reply := &message.Promise{Generation: m.Generation, Ballot: m.Ballot, Accepted: a.accepted}
	if a.value != nil && (a.accepted != m.Have || m.Have == message.Ballot{}) {
		reply.Value = a.value.Since(nil)
	}
	a.network.send(p, reply, a.disk.logged)
}

func (a *acceptor) onAccept(p *peer, m *message.Accept) {
	if !a.accepts(p, m.Generation, m.Ballot) {
		return
	}
	if m.Ballot.Less(a.promised) {
		a.network.send(p, &message.Refuse{Generation: m.Generation, Ballot: m.Ballot, Promised: a.promised}, 0)
		return
	}
	if a.accepted != m.Ballot {
		var v *roster.Roster
		if m.Value.Base == 0 {
			v = m.Value.Applied(nil)
		} else if m.Base == a.accepted && a.value != nil {
			v = m.Value.Applied(a.value)
		}
		if v == nil {
			a.network.send(p, &message.Refuse{Generation: m.Generation, Ballot: m.Ballot, Whole: true}, 0)
			return
		}
		a.promised, a.accepted, a.value = m.Ballot, m.Ballot, v
		a.logValue()
	}
	a.network.send(p, &message.Accepted{Generation: m.Generation, Ballot: m.Ballot}, a.disk.logged)
}

// onInstall makes this node an acceptor, with a chosen value or a value accepted by
// another acceptor. The node must not have been an acceptor of this generation already
// and have lost that state: the disk must be undamaged, and older than the node's place
// in Acceptors.
func (a *acceptor) onInstall(p *peer, m *message.Install) {
	r := m.Value.Applied(nil)
	if r == nil || r.Generation <= a.generation || a.disk.reason != "" {
		return
	}
	for _, x := range r.Acceptors {
		if x.Name == a.self.Name && (x.Incarnation == a.self.Incarnation || !a.images.damaged && a.disk.born != 0 && a.disk.born <= x.Incarnation) {
			a.vote = vote{generation: r.Generation, promised: m.Accepted, accepted: m.Accepted, value: r}
			a.logValue()
			if m.Accepted == (message.Ballot{}) {
				a.sync.adopt(r)
			}
		}
	}
}

// acceptors returns the acceptors known here: the roster's, or the disk's if these are newer.
func (a *acceptor) acceptors() (generation uint64, acceptors []dht.Replica) {
	switch {
	case a.ahead():
		return a.generation, a.value.Acceptors
	case a.view.roster != nil:
		return a.view.roster.Generation, a.view.roster.Acceptors
	}
	return 0, nil
}

// ahead reports whether this node is an acceptor of a generation without a known roster:
// the node has restarted and has not received a roster. The accepted value need not be
// chosen, but the value's Acceptors are.
func (a *acceptor) ahead() bool {
	return a.value != nil && (a.view.roster == nil || a.generation > a.view.roster.Generation)
}

// installable returns the message that installs a node as an acceptor of a generation in
// which the node has no state: with the roster's value, which this node knows to be
// chosen, or with the value of this node's own acceptor. A node without promises can
// accept a value proposed under any ballot, as if the proposal had arrived late.
func (a *acceptor) installable(generation uint64) *message.Install {
	switch {
	case a.view.roster != nil && a.view.roster.Generation == generation && !a.view.roster.Sealed():
		return &message.Install{Value: a.view.roster.Since(nil)}
	case a.value != nil && a.generation == generation:
		return &message.Install{Accepted: a.accepted, Value: a.value.Since(nil)}
	}
	return nil
}

// remember keeps the newest value left of this node's acceptor state, for a node forcing
// a new roster.
func (a *acceptor) remember(image []byte) {
	if x, ok := decodeValue(image); ok && (a.recall.value == nil || a.recall.value.Epoch < x.value.Epoch) {
		a.recall = x
	}
}

// restore restores the acceptor's state. An acceptor has promised the ballot of every
// accepted value, also where the promise entry is lost or is of the generation before.
func (a *acceptor) restore(promise, image []byte) {
	var p vote
	c := varint.Decoder(promise)
	p.codePromise(&c)
	x, ok := decodeValue(image)
	if c.Bad && promise != nil || !ok {
		return
	}
	x.promised = p.promised
	if p.generation < x.generation || p.promised.Less(x.accepted) {
		x.promised = x.accepted
	}
	a.vote = x
}

func (a *acceptor) logRecall() {
	if a.recall.value != nil {
		a.disk.log(diskRecall, a.recall.image())
	}
}
