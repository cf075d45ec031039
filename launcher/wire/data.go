package wire

import (
	"encoding/binary"
	"fmt"

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

// Output is a piece of the output of one node's ranks, cut at line ends.
type Output struct {
	Index   int32      // of the node in the job
	Rank    filch.Rank // the rank that wrote the piece
	Offset  uint64     // bytes of this node's output before this piece
	Stream  uint8      // 1 stdout, 2 stderr
	Partial bool       // the line continues
	Data    []byte
}

const (
	outputHeader = 4 + 4 + 8 + 1 + 1
	flagPartial  = 1
	flagEOF      = 1
)

// Head appends o's header to b. The body of a [KindOutput] frame is the header
// followed by Data, so that Data need not be copied twice.
func (o Output) Head(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(o.Index))
	b = binary.BigEndian.AppendUint32(b, uint32(o.Rank))
	b = binary.BigEndian.AppendUint64(b, o.Offset)
	flags := byte(0)
	if o.Partial {
		flags = flagPartial
	}
	return append(b, o.Stream, flags)
}

// DecodeOutput reads the body of a [KindOutput] frame; Data is part of b.
func DecodeOutput(b []byte) (Output, error) {
	if len(b) < outputHeader {
		return Output{}, short("output", len(b), outputHeader)
	}
	o := Output{
		Index:   int32(binary.BigEndian.Uint32(b)),
		Rank:    filch.Rank(binary.BigEndian.Uint32(b[4:])),
		Offset:  binary.BigEndian.Uint64(b[8:]),
		Stream:  b[16],
		Partial: b[17]&flagPartial != 0,
		Data:    b[outputHeader:],
	}
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

// Encode makes the body.
func (p Place) Encode() []byte {
	b := make([]byte, 0, placeLen)
	b = binary.BigEndian.AppendUint32(b, uint32(p.Index))
	return binary.BigEndian.AppendUint64(b, p.Offset)
}

// DecodePlace is the inverse of Encode.
func DecodePlace(b []byte) (Place, error) {
	if len(b) != placeLen {
		return Place{}, short("place", len(b), placeLen)
	}
	p := Place{Index: int32(binary.BigEndian.Uint32(b)), Offset: binary.BigEndian.Uint64(b[4:])}
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

// Head appends s's header to b; the caller appends Data.
func (s Stdin) Head(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, s.Offset)
	if s.EOF {
		return append(b, flagEOF)
	}
	return append(b, 0)
}

// DecodeStdin reads the body of a [KindStdin] frame; Data is part of b.
func DecodeStdin(b []byte) (Stdin, error) {
	if len(b) < stdinHeader {
		return Stdin{}, short("stdin", len(b), stdinHeader)
	}
	s := Stdin{Offset: binary.BigEndian.Uint64(b), EOF: b[8]&flagEOF != 0, Data: b[stdinHeader:]}
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

// Head appends f's header to b; the caller appends Body.
func (f PeerFrame) Head(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(f.From))
	return binary.BigEndian.AppendUint32(b, uint32(f.To))
}

// DecodePeerFrame reads the body of a [KindPeerFrame] frame; Body is part of b.
func DecodePeerFrame(b []byte) (PeerFrame, error) {
	if len(b) < peerHeader {
		return PeerFrame{}, short("peer frame", len(b), peerHeader)
	}
	f := PeerFrame{
		From: int32(binary.BigEndian.Uint32(b)),
		To:   int32(binary.BigEndian.Uint32(b[4:])),
		Body: b[peerHeader:],
	}
	if f.From < 0 || f.To < 0 {
		return PeerFrame{}, fmt.Errorf("peer frame refused: from %d to %d", f.From, f.To)
	}
	return f, nil
}

// Relay carries a frame of the data plane from node to node.
type Relay struct {
	Attempt filch.Attempt
	Kind    Kind
	Body    []byte
}

const relayHeader = 4 + 1

// Head appends r's header to b; the caller appends Body.
func (r Relay) Head(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(r.Attempt))
	return append(b, byte(r.Kind))
}

// DecodeRelay reads the body of a [KindRelay] frame; Body is part of b.
func DecodeRelay(b []byte) (Relay, error) {
	if len(b) < relayHeader {
		return Relay{}, short("relay", len(b), relayHeader)
	}
	r := Relay{Attempt: filch.Attempt(binary.BigEndian.Uint32(b)), Kind: Kind(b[4]), Body: b[relayHeader:]}
	switch r.Kind {
	case KindOutput, KindCredit, KindResend, KindStdin, KindStdinWant, KindPeerFrame,
		KindOutputEnd, KindOutputSeen, KindResize, KindWarn:
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
