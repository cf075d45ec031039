package overlay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
)

// Class separates frames not allowed to wait for each other.
type Class uint8

// The classes. Each has a stream of its own to every peer.
const (
	Gossip   Class = iota // the member list's own; not for users of a Network
	Control               // messages between launchers
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
	Queue int // bytes waiting for one peer before Send returns ErrFull
}

// ClassLimits holds the limits of every class. A launch message of a wide job is
// the largest frame (16 MiB plus its header); a queue holds two such frames. Bulk
// is kept short: bytes waiting here are memory held up by a reader slower than a
// rank. The queue of gossip holds the list of filch.MaxNodes, for a joining node.
var ClassLimits = [NumClasses]Limits{
	Gossip:   {Frame: 64 << 10, Queue: 8 << 20},
	Control:  {Frame: 16<<20 + 1024, Queue: 33 << 20},
	Metadata: {Frame: 16<<20 + 1024, Queue: 33 << 20},
	Bulk:     {Frame: 1<<20 + 1024, Queue: 4 << 20},
}

// MaxConns is the number of connections kept by a launcher besides the connections
// to protected peers.
const MaxConns = 64

// Errors of Send.
var (
	ErrUnreachable = errors.New("no way to the node is known or its last dial failed")
	ErrFull        = errors.New("the queue to the node is full")
	ErrTooLarge    = errors.New("the frame is larger than its class allows")
	ErrClosed      = errors.New("the overlay is closed")
)

// ErrRefused is the error of a Probe if the hosts of all addresses answered that no
// process listens, while no connection to the node was open.
var ErrRefused = errors.New("nobody listens there, and no connection to the node is open")

// Handler takes a frame from a peer. Handler is called in order for each (peer,
// class) and at the same time for different pairs. While Handler blocks, nothing
// more of the same peer and class is read, so back-pressure reaches the sender. The
// payload belongs to the handler.
type Handler func(from filch.NodeName, c Class, payload []byte)

// Network is the daemon's view of the other launchers. Its methods may be called
// from any goroutine.
type Network interface {
	// Name is this node's name.
	Name() filch.NodeName
	// Addr is the address, host:port, for others to reach this node.
	Addr() string
	// Send queues a frame and returns at once; Send opens the connection if there
	// is none. The payload may be reused afterwards. A frame to this node itself
	// comes back through the handler.
	Send(to filch.NodeName, c Class, payload []byte) error
	// SendWait is like Send but waits for room instead of returning ErrFull.
	SendWait(ctx context.Context, to filch.NodeName, c Class, payload []byte) error
	// SetHandler sets the receiver for frames of the classes Control, Metadata and
	// Bulk. Earlier frames are held back on their connection.
	SetHandler(h Handler)
	// SetWritable sets the function called when a queue is at most half full again
	// after ErrFull. The function must not block.
	SetWritable(f func(to filch.NodeName, c Class))
	// Protect keeps the connection to a peer from being closed as idle, and outside
	// the count of MaxConns, until every tag is removed.
	Protect(node filch.NodeName, tag string)
	// Unprotect removes a tag.
	Unprotect(node filch.NodeName, tag string)
	// Peers lists the peers with an open connection, by name.
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
	Heard     time.Time // the last frame from the peer
	Queued    int       // bytes waiting, all classes
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
	Failed   uint64 // of the dials tried
	Refused  uint64 // not admitted: no proof of the secret, or another instance, version, name
	Hostile  uint64 // frames and streams that broke the protocol
	Evicted  uint64 // connections closed to stay within MaxConns
	Accepted uint64 // incoming connections
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
	WrongSecret        // the identity does not follow from the secret and the name
	NameTaken          // a live node has the name
	Stale              // the node is known with the higher incarnation in Incarnation
	TooMany            // too many peers wait for admission
)

// Refusal is the error of a refused dialer, or of the refused admission of a peer.
type Refusal struct {
	Code        Code
	Text        string
	Incarnation uint64
}

func (r *Refusal) Error() string { return r.Text }

// NotAdmitted is the error of a dialer refusing to admit the dialed node. It is no
// Refusal: the other side has nothing against the dialer.
func NotAdmitted(node filch.NodeName, r *Refusal) error {
	return fmt.Errorf("node %s is not admitted here: %s", node, r.Text)
}

// Hooks are the callbacks into a Mesh. Start from [OpenHooks]; all but Admit return
// soon. They are set once, before the first Dial.
type Hooks struct {
	// Card returns this node's own entry, for its next hello.
	Card func() []byte
	// Admit decides about a peer with a proven identity; Admit may take up to
	// AdmitTimeout.
	Admit func(ctx context.Context, h Hello) *Refusal
	// Gossip takes frames of class Gossip, like a Handler.
	Gossip func(from filch.NodeName, incarnation uint64, payload []byte)
	// Deliver reports whether frames of the incarnation are to be delivered.
	Deliver func(from filch.NodeName, incarnation uint64) bool
	// Refused is called when a peer did not admit this node.
	Refused func(name filch.NodeName, r *Refusal)
	// Closed is called when the last connection to a peer has closed.
	Closed func(name filch.NodeName)
}

// OpenHooks admit every peer with a valid proof, deliver every frame and ignore the
// rest.
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

// Carrier is a Network with more methods for [Mesh].
type Carrier interface {
	Network
	// SetHooks is called once, before anything else.
	SetHooks(Hooks)
	// SetIncarnation changes the incarnation in the hello; open connections are
	// cut.
	SetIncarnation(uint64)
	// Learn sets the addresses of a node.
	Learn(node filch.NodeName, addrs []string)
	// Forget drops the addresses set by Learn, and cuts.
	Forget(node filch.NodeName)
	// Dial connects to the node answering at addr and returns the node's name.
	Dial(ctx context.Context, addr string) (filch.NodeName, error)
	// Probe makes a fresh connection to one of the addresses, makes the node prove
	// its name there and closes the connection again. See [ErrRefused].
	Probe(ctx context.Context, node filch.NodeName, addrs []string) error
	// Cut closes the connections to a node and drops the frames waiting for the
	// node.
	Cut(node filch.NodeName)
	// Pin names the peers with connections not to be closed as idle; the
	// connections still count towards MaxConns. A call replaces the names of the
	// last call.
	Pin(nodes []filch.NodeName)
	// Heard is the time of the last frame from a node; zero for never.
	Heard(node filch.NodeName) time.Time
}
