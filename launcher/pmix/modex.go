package pmix

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// parcelKind is a kind of message between the keepers of a job. Kinds cross the wire
// between nodes of an instance: append only.
type parcelKind uint8

const (
	parcelUp   parcelKind = iota + 1 // a subtree's part of fence id of key
	parcelDown                       // the whole of a fence
	parcelAsk                        // question id: the data of a rank
	parcelHave                       // the answer
	parcelLeft                       // rank id ended before MPI_Init
	parcelWord                       // a message to or from the hub of the family
)

// parcel is a message between the keepers of a job; the kind decides which fields matter.
type parcel struct {
	kind   parcelKind
	key    groupKey
	id     uint32
	status int32 // have; the rank of an ask
	data   []byte
}

const parcelHeader = 1 + 16 + 4 + 4

func (p parcel) encode() []byte {
	b := make([]byte, 0, parcelHeader+len(p.data))
	b = append(append(b, byte(p.kind)), p.key[:]...)
	b = binary.BigEndian.AppendUint32(b, p.id)
	b = binary.BigEndian.AppendUint32(b, uint32(p.status))
	return append(b, p.data...)
}

func decodeParcel(b []byte) (p parcel, ok bool) {
	if len(b) < parcelHeader {
		return p, false
	}
	p.kind = parcelKind(b[0])
	copy(p.key[:], b[1:])
	p.id = binary.BigEndian.Uint32(b[17:])
	p.status = int32(binary.BigEndian.Uint32(b[21:]))
	p.data = b[parcelHeader:]
	return p, p.kind >= parcelUp && p.kind <= parcelWord
}

// send puts a message on its way to another node.
func (e *Engine) send(to int32, p parcel, out *pmi.Out) bool {
	if e.paths.Send(to, p.encode()) {
		return true
	}
	out.Notes = append(out.Notes, fmt.Sprintf("no way to node %d of the job any more", to))
	return false
}

// parcel acts on a message of another node; false means an invalid message.
func (e *Engine) parcel(now time.Duration, from pmi.Parcel, out *pmi.Out) bool {
	p, ok := decodeParcel(from.Body)
	if !ok {
		return false
	}
	switch p.kind {
	case parcelUp:
		return e.part(from.From, p, out)
	case parcelDown:
		return e.whole(from.From, p, out)
	case parcelAsk:
		return e.asked(from.From, p, out)
	case parcelHave:
		if node, ok := e.wants[p.id]; !ok || node != from.From {
			return false
		}
		delete(e.wants, p.id)
		e.tell(out, newFrame(kindModexDone).u32(p.id).u32(uint32(p.status)).blob(p.data))
		return true
	}
	if p.kind == parcelWord {
		return e.kin.word(now, from.From, p.data, out)
	}
	if p.id >= uint32(len(e.home)) {
		return false
	}
	e.depart(now, filch.Rank(p.id), from.From, out)
	return true
}

// need handles our helper's question for the data of another node's rank.
func (e *Engine) need(id uint32, rank filch.Rank, out *pmi.Out) {
	status := int32(statusNotFound)
	if int(rank) < len(e.home) && e.home[rank] >= 0 && e.home[rank] != e.cfg.Node {
		if e.send(e.home[rank], parcel{kind: parcelAsk, id: id, status: int32(rank)}, out) {
			e.wants[id] = e.home[rank]
			return
		}
		status = statusUnreachable
	}
	e.answer(id, status, out)
}

func (e *Engine) answer(id uint32, status int32, out *pmi.Out) {
	e.tell(out, newFrame(kindModexDone).u32(id).u32(uint32(status)).blob(nil))
}

// unreachable answers the questions to nodes without a way left.
func (e *Engine) unreachable(out *pmi.Out) {
	for _, id := range slices.Sorted(maps.Keys(e.wants)) {
		if !e.paths.Reaches(e.wants[id]) {
			delete(e.wants, id)
			e.answer(id, statusUnreachable, out)
		}
	}
}

// asked passes the question of another node to our helper, which answers when the rank
// has put the data.
func (e *Engine) asked(from int32, p parcel, out *pmi.Out) bool {
	rank := filch.Rank(p.status)
	if e.ranks[rank] == nil || len(e.asks) >= maxOpen {
		return e.send(from, parcel{kind: parcelHave, id: p.id, status: statusNotFound}, out)
	}
	e.serial++
	e.asks[e.serial] = ask{node: from, id: p.id}
	e.tell(out, newFrame(kindModexAsk).u32(e.serial).u32(uint32(rank)))
	return true
}

// have sends the helper's answer to the asking node.
func (e *Engine) have(now time.Duration, id uint32, status int32, data []byte, out *pmi.Out) {
	a, ok := e.asks[id]
	if !ok {
		return
	}
	delete(e.asks, id)
	if a.far {
		e.kin.raise(now, word{kind: wordHave, node: e.cfg.Node, id: a.id, body: builder(nil).u32(uint32(status)).blob(data)}, out)
		return
	}
	e.send(a.node, parcel{kind: parcelHave, id: a.id, status: status, data: data}, out)
}

// askedFar passes the question of another job to our helper.
func (e *Engine) askedFar(id uint32, rank filch.Rank, out *pmi.Out) {
	if e.ranks[rank] == nil || len(e.asks) >= maxOpen {
		status := int32(statusNotFound)
		e.kin.raise(0, word{kind: wordHave, node: e.cfg.Node, id: id, body: builder(nil).u32(uint32(status)).blob(nil)}, out)
		return
	}
	e.serial++
	e.asks[e.serial] = ask{id: id, far: true}
	e.tell(out, newFrame(kindModexAsk).u32(e.serial).u32(uint32(rank)))
}
