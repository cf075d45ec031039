package overlay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
)

// Class separates frames that must not wait for each other.
type Class uint8

// The classes. Each has a stream of its own to every peer.
const (
	Gossip   Class = iota // the member list's own; not for users of a Network
	Control               // messages between brains
	Metadata              // store operations, fences
	Bulk                  // output, staged files
	NumClasses
)

var classNames = [NumClasses]string{"gossip", "control", "metadata", "bulk"}

func (c Class) String() string {
	if c < NumClasses {
		return classNames[c]
	}
	return fmt.Sprintf("class-%d", uint8(c))
}

// Limits of one class.
type Limits struct {
	Frame int // bytes of payload in one frame
	Queue int // bytes that wait for one peer before Send answers ErrFull
}

// ClassLimits holds the limits of every class. A launch message of a wide job
// is the largest frame (16 MiB plus its header); a queue holds two of them. Bulk is kept
// short: what waits here is memory taken by a reader that is slower than a rank.
// The queue of gossip holds the list of dht.MaxMembers, for one who joins.
var ClassLimits = [NumClasses]Limits{
	Gossip:   {Frame: 64 << 10, Queue: 8 << 20},
	Control:  {Frame: 16<<20 + 1024, Queue: 33 << 20},
	Metadata: {Frame: 16<<20 + 1024, Queue: 33 << 20},
	Bulk:     {Frame: 1<<20 + 1024, Queue: 4 << 20},
}

// MaxConns is the number of connections that a launcher keeps besides those of
// protected peers.
const MaxConns = 64

// Errors of Send.
var (
	ErrUnreachable = errors.New("no way to the node is known or its last dial failed")
	ErrFull        = errors.New("the queue to the node is full")
	ErrTooLarge    = errors.New("the frame is larger than its class allows")
	ErrClosed      = errors.New("the overlay is closed")
)

// ErrRefused is the error of a Probe to which the hosts of all addresses answered
// that nobody listens, while no connection to the node was open.
var ErrRefused = errors.New("nobody listens there, and no connection to the node is open")

// Handler takes a frame that came from a peer. It is called in order for each
// (peer, class) and at the same time for different ones. While it blocks,
// nothing more of that peer and class is read, which is how back-pressure
// reaches the sender. The payload belongs to the handler.
type Handler func(from filch.NodeName, c Class, payload []byte)

// Network is what a launcher's daemon sees of the other launchers. Its methods
// may be called from any goroutine.
type Network interface {
	// Name is this node's name.
	Name() filch.NodeName
	// Addr is the address, host:port, under which others reach this node.
	Addr() string
	// Send queues a frame and returns at once; it opens the connection when
	// there is none. The payload may be reused afterwards. A frame to this
	// node itself comes back through the handler.
	Send(to filch.NodeName, c Class, payload []byte) error
	// SendWait is Send that waits for room instead of answering ErrFull.
	SendWait(ctx context.Context, to filch.NodeName, c Class, payload []byte) error
	// SetHandler says who takes frames of the classes Control, Metadata and
	// Bulk. Frames that come before are held back on their connection.
	SetHandler(h Handler)
	// SetWritable says who is told that a queue which answered ErrFull is at
	// most half full again. It must not block.
	SetWritable(f func(to filch.NodeName, c Class))
	// Protect keeps the connection to a peer from being closed for being
	// idle, and outside the count of MaxConns, until every tag is gone.
	Protect(node filch.NodeName, tag string)
	// Unprotect takes a tag back.
	Unprotect(node filch.NodeName, tag string)
	// Peers lists the peers to which a connection is open, by name.
	Peers() []Peer
	// Stats returns the counters.
	Stats() Stats
	// Close ends everything and returns when all goroutines are gone.
	Close() error
}

// Peer describes an open connection.
type Peer struct {
	Name      filch.NodeName
	Addr      string
	Heard     time.Time // the last frame from it
	Queued    int       // bytes that wait, all classes
	Protected bool
}

// ClassStats counts one class.
type ClassStats struct {
	FramesOut, FramesIn uint64
	BytesOut, BytesIn   uint64 // payload
	Full                uint64 // frames refused with ErrFull
	Lost                uint64 // frames dropped because a connection broke or a dial failed
}

// Stats holds counters since the start.
type Stats struct {
	Class    [NumClasses]ClassStats
	Conns    int    // open now, admitted
	Dials    uint64 // tried
	Failed   uint64 // of those
	Refused  uint64 // connections not admitted: no proof of the secret, or another instance, version, name
	Hostile  uint64 // frames and streams that broke the protocol
	Evicted  uint64 // connections closed to stay within MaxConns
	Accepted uint64 // connections that came in
}

// Hello is the first frame on a connection, in both directions.
type Hello struct {
	Version     uint16
	Instance    string
	Name        filch.NodeName
	Incarnation uint64
	Card        []byte // opaque here: the sender's own entry in the member list
}

// Code says why a peer was refused; it crosses the wire: append only.
type Code uint8

// The codes.
const (
	Admitted      Code = iota
	BadHello           // not a hello
	WrongVersion       // another wire version
	WrongInstance      // another instance
	WrongSecret        // the peer's identity does not follow from the secret and its name
	NameTaken          // a live node has the name
	Stale              // the node is known with a higher incarnation, which is in Incarnation
	TooMany            // too many peers wait for admission
)

// Refusal is the error of a dialer that was not admitted, or of the admission
// of a peer.
type Refusal struct {
	Code        Code
	Text        string
	Incarnation uint64
}

func (r *Refusal) Error() string { return r.Text }

// NotAdmitted is the error of a dialer that itself does not admit the node it
// dialed. It is no Refusal: the other side has nothing against the dialer.
func NotAdmitted(node filch.NodeName, r *Refusal) error {
	return fmt.Errorf("node %s is not admitted here: %s", node, r.Text)
}

// Hooks are what a Mesh is told. Start from [OpenHooks]; all but Admit return
// soon. They are set once, before the first Dial.
type Hooks struct {
	// Card returns this node's own entry, for its next hello.
	Card func() []byte
	// Admit is asked about a peer whose identity has been proved; it may take
	// up to AdmitTimeout. addr is where the peer's connection came from.
	Admit func(ctx context.Context, h Hello) *Refusal
	// Gossip takes frames of class Gossip, like a Handler.
	Gossip func(from filch.NodeName, incarnation uint64, payload []byte)
	// Deliver reports whether frames of that incarnation are to be delivered.
	Deliver func(from filch.NodeName, incarnation uint64) bool
	// Refused is told when a peer did not admit this node.
	Refused func(name filch.NodeName, r *Refusal)
	// Closed is told when the last connection to a peer has gone.
	Closed func(name filch.NodeName)
}

// OpenHooks admit every peer that proves itself, deliver every frame and
// ignore the rest.
func OpenHooks() Hooks {
	return Hooks{
		Card:    func() []byte { return nil },
		Admit:   func(context.Context, Hello) *Refusal { return nil },
		Gossip:  func(filch.NodeName, uint64, []byte) {},
		Deliver: func(filch.NodeName, uint64) bool { return true },
		Refused: func(filch.NodeName, *Refusal) {},
		Closed:  func(filch.NodeName) {},
	}
}

// Carrier is a Network with what [Mesh] needs besides.
type Carrier interface {
	Network
	// SetHooks is called once, before anything else.
	SetHooks(Hooks)
	// SetIncarnation changes what the hello says; open connections are cut.
	SetIncarnation(uint64)
	// Learn says where a node can be reached.
	Learn(node filch.NodeName, addrs []string)
	// Forget drops what Learn said, and cuts.
	Forget(node filch.NodeName)
	// Dial connects to whoever answers at addr and says who it is.
	Dial(ctx context.Context, addr string) (filch.NodeName, error)
	// Probe makes a fresh connection to one of the addresses, has the node
	// prove its name there and closes it again. See [ErrRefused].
	Probe(ctx context.Context, node filch.NodeName, addrs []string) error
	// Cut closes the connections to a node and drops what waits for it.
	Cut(node filch.NodeName)
	// Pin names the peers whose connections are not closed for being idle,
	// though they count; a call replaces the last one's.
	Pin(nodes []filch.NodeName)
	// Heard is when the last frame came from a node; zero for never.
	Heard(node filch.NodeName) time.Time
}
