package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/filch-hpc/filch"
)

// The data plane. On a client's or keeper's link the frame's Req is not used (0); from
// node to node a frame travels inside a relay frame whose Req is the job. All numbers
// are big-endian.
//
// Places in a stream are absolute byte counts, never increments: a frame that is lost,
// repeated or late says nothing wrong. A keeper keeps sent output until the origin has
// sent credit for the output, at most a window, and sends the output again from a place
// on [KindResend] or after [KindAdopt]; a receiver drops output seen before.

// header is the fixed header of a frame, being written or being read: each type names
// its fields once, in a method layout for both directions.
type header struct {
	b    []byte
	read bool // the fields come from b
}

// The functions below write or read one field, and return the rest of the header: as a
// value, so that the buffers of callers stay on their stacks.

func field8[T ~uint8](h header, v *T) header {
	if !h.read {
		h.b = append(h.b, byte(*v))
		return h
	}
	*v, h.b = T(h.b[0]), h.b[1:]
	return h
}

func field32[T ~int32](h header, v *T) header {
	if !h.read {
		h.b = binary.BigEndian.AppendUint32(h.b, uint32(*v))
		return h
	}
	*v, h.b = T(binary.BigEndian.Uint32(h.b)), h.b[4:]
	return h
}

func field64(h header, v *uint64) header {
	if !h.read {
		h.b = binary.BigEndian.AppendUint64(h.b, *v)
		return h
	}
	*v, h.b = binary.BigEndian.Uint64(h.b), h.b[8:]
	return h
}

// flag is a byte, 0 or 1.
func flag(h header, v *bool) header {
	var b uint8
	if *v {
		b = 1
	}
	h = field8(h, &b)
	*v = b&1 != 0
	return h
}

// Output is a piece of the output of one node's ranks, cut at line ends.
type Output struct {
	Index   int32      // of the node in the job
	Rank    filch.Rank // the rank that wrote the piece
	Offset  uint64     // bytes of this node's output before this piece
	Stream  uint8      // 1 stdout, 2 stderr
	Partial bool       // the line continues
	Data    []byte
}

const outputHeader = 4 + 4 + 8 + 1 + 1

func (o *Output) layout(h header) header {
	h = field32(h, &o.Index)
	h = field32(h, &o.Rank)
	h = field64(h, &o.Offset)
	h = field8(h, &o.Stream)
	return flag(h, &o.Partial)
}

// Head appends o's header to b. The body of a [KindOutput] frame is the header
// followed by Data, so that Data need not be copied twice.
func (o Output) Head(b []byte) []byte {
	return o.layout(header{b: b}).b
}

// DecodeOutput reads the body of a [KindOutput] frame; Data is part of b.
func DecodeOutput(b []byte) (Output, error) {
	if len(b) < outputHeader {
		return Output{}, short("output", len(b), outputHeader)
	}
	var o Output
	o.Data = o.layout(header{b: b, read: true}).b
	if o.Index < 0 || o.Rank < 0 || o.Stream < 1 || o.Stream > 2 || o.Offset > MaxOffset {
		return Output{}, fmt.Errorf("output refused: index %d, rank %d, stream %d, offset %d", o.Index, o.Rank, o.Stream, o.Offset)
	}
	return o, nil
}

// MaxOffset bounds places in a stream, so that sums do not overflow.
const MaxOffset = 1 << 60

// Place is the body of [KindCredit] (everything before Offset was taken), [KindResend]
// (send again from Offset), [KindStdinWant] (the node takes stdin up to Offset;
// NoStdin: this node's ranks take none), [KindOutputEnd] (the node has sent its last
// byte, Offset in all) and [KindOutputSeen] (the answer to KindOutputEnd).
type Place struct {
	Index  int32
	Offset uint64
}

// NoStdin as the Offset of a [KindStdinWant] says that the ranks read no stdin.
const NoStdin = MaxOffset

const placeLen = 4 + 8

func (p *Place) layout(h header) header {
	h = field32(h, &p.Index)
	return field64(h, &p.Offset)
}

// Encode makes the body.
func (p Place) Encode() []byte {
	return p.layout(header{b: make([]byte, 0, placeLen)}).b
}

// DecodePlace is the inverse of Encode.
func DecodePlace(b []byte) (Place, error) {
	if len(b) != placeLen {
		return Place{}, short("place", len(b), placeLen)
	}
	var p Place
	p.layout(header{b: b, read: true})
	if p.Index < 0 || p.Offset > MaxOffset {
		return Place{}, fmt.Errorf("place refused: index %d, offset %d", p.Index, p.Offset)
	}
	return p, nil
}

// Stdin is a piece of the client's standard input.
type Stdin struct {
	Offset uint64
	EOF    bool // nothing follows Data
	Data   []byte
}

const stdinHeader = 8 + 1

func (s *Stdin) layout(h header) header {
	h = field64(h, &s.Offset)
	return flag(h, &s.EOF)
}

// Head appends s's header to b; the caller appends Data.
func (s Stdin) Head(b []byte) []byte {
	return s.layout(header{b: b}).b
}

// DecodeStdin reads the body of a [KindStdin] frame; Data is part of b.
func DecodeStdin(b []byte) (Stdin, error) {
	if len(b) < stdinHeader {
		return Stdin{}, short("stdin", len(b), stdinHeader)
	}
	var s Stdin
	s.Data = s.layout(header{b: b, read: true}).b
	if s.Offset > MaxOffset {
		return Stdin{}, fmt.Errorf("stdin refused: offset %d", s.Offset)
	}
	return s, nil
}

// PeerFrame goes from one keeper of a job to another: fence traffic, opaque to the
// launchers between the keepers; a launcher may drop or repeat a frame.
type PeerFrame struct {
	From, To int32 // indices of the nodes
	Body     []byte
}

const peerHeader = 4 + 4

func (f *PeerFrame) layout(h header) header {
	h = field32(h, &f.From)
	return field32(h, &f.To)
}

// Head appends f's header to b; the caller appends Body.
func (f PeerFrame) Head(b []byte) []byte {
	return f.layout(header{b: b}).b
}

// DecodePeerFrame reads the body of a [KindPeerFrame] frame; Body is part of b.
func DecodePeerFrame(b []byte) (PeerFrame, error) {
	if len(b) < peerHeader {
		return PeerFrame{}, short("peer frame", len(b), peerHeader)
	}
	var f PeerFrame
	f.Body = f.layout(header{b: b, read: true}).b
	if f.From < 0 || f.To < 0 {
		return PeerFrame{}, fmt.Errorf("peer frame refused: from %d to %d", f.From, f.To)
	}
	return f, nil
}

// KinFrame carries a frame from the keeper of one job to the first keeper of another job of
// the same family: the jobs that descend, by MPI_Comm_spawn, from one job. An empty Body says
// that the sender's job has no such keeper.
type KinFrame struct {
	ToJob, FromJob         filch.JobID
	ToAttempt, FromAttempt filch.Attempt
	To, From               filch.NodeName // the nodes of the keepers
	Body                   []byte
}

const kinHeader = 4 + 4 + 4 + 4 + 1 + 1

// Head appends f's header to b; the caller appends Body.
func (f KinFrame) Head(b []byte) []byte {
	to, from := min(len(f.To), math.MaxUint8), min(len(f.From), math.MaxUint8)
	h := header{b: b}
	h = field32(h, &f.ToJob)
	h = field32(h, &f.FromJob)
	h = field32(h, &f.ToAttempt)
	h = field32(h, &f.FromAttempt)
	b = append(h.b, byte(to), byte(from))
	return append(append(b, f.To[:to]...), f.From[:from]...)
}

// DecodeKinFrame reads the body of a [KindKinFrame] frame; Body is part of b.
func DecodeKinFrame(b []byte) (KinFrame, error) {
	if len(b) < kinHeader || len(b) < kinHeader+int(b[kinHeader-2])+int(b[kinHeader-1]) {
		return KinFrame{}, short("kin frame", len(b), kinHeader)
	}
	var f KinFrame
	h := header{b: b, read: true}
	h = field32(h, &f.ToJob)
	h = field32(h, &f.FromJob)
	h = field32(h, &f.ToAttempt)
	h = field32(h, &f.FromAttempt)
	to, from := int(h.b[0]), int(h.b[1])
	names := h.b[2:]
	f.To, f.From, f.Body = filch.NodeName(names[:to]), filch.NodeName(names[to:to+from]), names[to+from:]
	if f.ToJob <= 0 || f.FromJob <= 0 || f.ToAttempt <= 0 || f.FromAttempt <= 0 || to == 0 || from == 0 {
		return KinFrame{}, fmt.Errorf("kin frame refused: from job %d on %q to job %d on %q", f.FromJob, f.From, f.ToJob, f.To)
	}
	return f, nil
}

// Back is the answer to f that says there is no such keeper.
func (f KinFrame) Back() KinFrame {
	return KinFrame{
		ToJob: f.FromJob, FromJob: f.ToJob, ToAttempt: f.FromAttempt, FromAttempt: f.ToAttempt, To: f.From, From: f.To,
	}
}

// Relay carries a frame of the data plane from node to node.
type Relay struct {
	Attempt filch.Attempt
	Kind    Kind
	Body    []byte
}

const relayHeader = 4 + 1

func (r *Relay) layout(h header) header {
	h = field32(h, &r.Attempt)
	return field8(h, &r.Kind)
}

// Head appends r's header to b; the caller appends Body.
func (r Relay) Head(b []byte) []byte {
	return r.layout(header{b: b}).b
}

// DecodeRelay reads the body of a [KindRelay] frame; Body is part of b.
func DecodeRelay(b []byte) (Relay, error) {
	if len(b) < relayHeader {
		return Relay{}, short("relay", len(b), relayHeader)
	}
	var r Relay
	r.Body = r.layout(header{b: b, read: true}).b
	if r.Kind.On(inRelay) {
		return r, checkLen(r.Kind, len(r.Body))
	}
	return Relay{}, fmt.Errorf("relay refused: kind %s is not of the data plane", r.Kind)
}

func short(what string, got, want int) error {
	return fmt.Errorf("%s refused: %d bytes, its header has %d", what, got, want)
}

// Window is how much output a keeper of a job of so many nodes sends ahead of
// its credit: the origin of a job of up to 256 nodes holds at most 16 MiB.
func Window(nodes int) uint64 {
	return uint64(max(maxWindow/max(1, nodes/16), minWindow))
}

const (
	maxWindow = 1 << 20
	minWindow = 64 << 10
)
