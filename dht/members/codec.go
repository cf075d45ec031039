package members

import (
	"encoding/binary"
	"errors"

	"github.com/filch-hpc/filch"
)

// MaxGossip is the maximum size of a gossip message; longer lists are cut into
// several messages.
const MaxGossip = 32 << 10

// The kinds of gossip messages; they cross the wire: append only.
const (
	kindBeat     = iota + 1 // I am alive; sum of my list
	kindPing                // asks for your entry; holds your entry as I know it
	kindAck                 // the answer: my entry; sum of my list
	kindNews                // entries
	kindJoin                // my entry: take me in and send the list
	kindList                // one page of the answer
	kindSync                // sums of the buckets of my list
	kindSyncBack            // these buckets differ, send me yours
	kindAsk                 // does this node answer you? State Gone: does it refuse you too?
	kindSay                 // the reply to kindAsk: the sender's finding
	kindNotice              // you were declared dead
)

// buckets is the number of parts into which two nodes cut their lists to find the
// differences.
const buckets = 64

// gossip is a message of any kind; kind says which fields have a meaning.
type gossip struct {
	kind    uint8
	sum     uint64   // beat, ack, sync back: the mask of buckets
	nonce   uint32   // join, list; notice: how many live members the sender knows
	page    uint16   // list
	pages   uint16   // list
	found   finding  // say
	leader  string   // notice: the least name among the live members
	members []Member // ping, ask, say and notice: one, without addresses and capacity
	sums    [buckets]uint64
}

var errGossip = errors.New("malformed gossip")

func (g *gossip) encode() []byte {
	b := []byte{g.kind}
	switch g.kind {
	case kindBeat, kindSyncBack:
		b = binary.BigEndian.AppendUint64(b, g.sum)
	case kindAck:
		b = binary.BigEndian.AppendUint64(b, g.sum)
		b = appendMember(b, &g.members[0])
	case kindPing, kindAsk:
		b = appendBrief(b, &g.members[0])
	case kindSay:
		b = append(b, byte(g.found))
		b = appendBrief(b, &g.members[0])
	case kindNotice:
		b = binary.BigEndian.AppendUint32(b, g.nonce)
		b = appendString(b, g.leader)
		b = appendBrief(b, &g.members[0])
	case kindNews:
		b = appendMembers(b, g.members)
	case kindJoin:
		b = binary.BigEndian.AppendUint32(b, g.nonce)
		b = appendMember(b, &g.members[0])
	case kindList:
		b = binary.BigEndian.AppendUint32(b, g.nonce)
		b = binary.BigEndian.AppendUint16(b, g.page)
		b = binary.BigEndian.AppendUint16(b, g.pages)
		b = appendMembers(b, g.members)
	case kindSync:
		for _, s := range g.sums {
			b = binary.BigEndian.AppendUint64(b, s)
		}
	}
	return b
}

func decodeGossip(b []byte) (*gossip, error) {
	if len(b) == 0 || len(b) > MaxGossip {
		return nil, errGossip
	}
	r := reader{b: b[1:]}
	g := &gossip{kind: b[0]}
	switch g.kind {
	case kindBeat, kindSyncBack:
		g.sum = r.u64()
	case kindAck:
		g.sum = r.u64()
		g.members = []Member{r.member()}
	case kindPing, kindAsk:
		g.members = []Member{r.brief()}
	case kindSay:
		g.found = finding(r.u8())
		r.bad = r.bad || g.found > foundRefused
		g.members = []Member{r.brief()}
	case kindNotice:
		g.nonce = r.u32()
		g.leader = string(r.bytes(filch.MaxNodeName))
		g.members = []Member{r.brief()}
	case kindNews:
		g.members = r.members()
	case kindJoin:
		g.nonce = r.u32()
		g.members = []Member{r.member()}
	case kindList:
		g.nonce, g.page, g.pages = r.u32(), r.u16(), r.u16()
		g.members = r.members()
	case kindSync:
		for i := range g.sums {
			g.sums[i] = r.u64()
		}
	default:
		return nil, errGossip
	}
	if r.bad || len(r.b) != 0 {
		return nil, errGossip
	}
	return g, nil
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendString[T ~string | ~[]byte](b []byte, s T) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// appendBrief encodes the fields identifying an entry.
func appendBrief(b []byte, m *Member) []byte {
	b = appendString(b, m.Name)
	b = binary.BigEndian.AppendUint64(b, m.Incarnation)
	b = binary.BigEndian.AppendUint32(b, m.Version)
	return append(b, byte(m.State))
}

// appendMember encodes a whole entry.
func appendMember(b []byte, m *Member) []byte {
	b = appendBrief(b, m)
	b = appendBool(b, m.Draining)
	b = append(b, byte(len(m.Addrs)))
	for _, a := range m.Addrs {
		b = appendString(b, a)
	}
	return appendString(b, m.Capacity)
}

// Decode reads an entry encoded by appendMember.
func Decode(b []byte) (Member, error) {
	r := reader{b: b}
	m := r.member()
	if r.bad || len(r.b) != 0 {
		return Member{}, errGossip
	}
	return m, nil
}

func appendMembers(b []byte, ms []Member) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(ms)))
	for i := range ms {
		b = appendMember(b, &ms[i])
	}
	return b
}

// encodedSize is the length of an entry encoded by appendMember.
func encodedSize(m *Member) int {
	n := 2 + len(m.Name) + 8 + 4 + 1 + 1 + 1 + 2 + len(m.Capacity)
	for _, a := range m.Addrs {
		n += 2 + len(a)
	}
	return n
}

// pages cuts entries into slices that fit in one message each.
func pages(ms []Member) [][]Member {
	const room = MaxGossip - 64 // for the header
	var out [][]Member
	for len(ms) > 0 {
		n, size := 0, 0
		for n < len(ms) {
			size += encodedSize(&ms[n])
			if size > room {
				break
			}
			n++
		}
		out, ms = append(out, ms[:n]), ms[n:]
	}
	return out
}

// reader takes fields off the front; bad is set once a field did not fit.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	f := r.b[:n:n]
	r.b = r.b[n:]
	return f
}

func (r *reader) u8() uint8 {
	if f := r.take(1); f != nil {
		return f[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if f := r.take(2); f != nil {
		return binary.BigEndian.Uint16(f)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if f := r.take(4); f != nil {
		return binary.BigEndian.Uint32(f)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if f := r.take(8); f != nil {
		return binary.BigEndian.Uint64(f)
	}
	return 0
}

func (r *reader) bytes(limit int) []byte {
	n := int(r.u16())
	if n > limit {
		r.bad = true
		return nil
	}
	return r.take(n)
}

func (r *reader) brief() Member {
	m := Member{Name: filch.NodeName(r.bytes(filch.MaxNodeName)), Incarnation: r.u64(), Version: r.u32(), State: State(r.u8())}
	if m.Name == "" || m.State > Left {
		r.bad = true
	}
	return m
}

func (r *reader) member() Member {
	m := r.brief()
	m.Draining = r.u8() != 0
	n := int(r.u8())
	if n > maxAddrs {
		r.bad = true
	}
	for i := 0; i < n && !r.bad; i++ {
		m.Addrs = append(m.Addrs, string(r.bytes(maxAddr)))
	}
	// A copy: the entry outlives the message.
	m.Capacity = append([]byte(nil), r.bytes(MaxCapacity)...)
	return m
}

func (r *reader) members() []Member {
	n := int(r.u16())
	var out []Member
	for i := 0; i < n && !r.bad; i++ {
		out = append(out, r.member())
	}
	return out
}
