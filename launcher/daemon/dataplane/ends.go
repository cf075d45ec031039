package dataplane

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/filch-hpc/filch/launcher/wire"
)

// Client is the local end of the data plane of a run: the link of the client.
type Client struct {
	Conn *wire.Conn
	Job  atomic.Int32 // of this client, 0 none

	mu  sync.Mutex  // guards due
	due []dueCredit // output in Conn's queue, oldest first
}

// dueCredit is credit that the client pays to a route when the kernel has taken the output.
type dueCredit struct {
	at     uint64 // bytes written to the client's link up to this output
	route  *route
	index  int32
	offset uint64
}

// Attach makes the link of a client from a stream.
func (c *Client) Attach(stream io.ReadWriteCloser) {
	c.Conn = wire.NewConn(stream)
	c.Conn.OnWritten(c.onWritten)
}

// onWritten receives from the link the number of bytes that the kernel has taken, and
// pays the credit due by then.
func (c *Client) onWritten(n uint64) {
	c.mu.Lock()
	i := 0
	for i < len(c.due) && c.due[i].at <= n {
		i++
	}
	due := append([]dueCredit(nil), c.due[:i]...)
	c.due = append(c.due[:0], c.due[i:]...)
	c.mu.Unlock()
	for _, o := range due {
		o.route.credit(o.index, o.offset, false)
	}
}

// CreditRest pays for output that the client will never take, so that no keeper waits.
func (c *Client) CreditRest() {
	c.mu.Lock()
	due := c.due
	c.due = nil
	c.mu.Unlock()
	for _, o := range due {
		o.route.credit(o.index, o.offset, false)
	}
}

// Keeper is the end of the data plane at the ranks: the link of the keeper.
type Keeper struct {
	Conn  *wire.Conn
	route atomic.Pointer[route] // of the keeper's job
}

// OnFrame handles a frame of the data plane from the keeper.
func (k *Keeper) OnFrame(f wire.Frame) error {
	if r := k.route.Load(); r != nil {
		return r.onKeeperFrame(f)
	}
	return nil
}

// Flush sends the frames queued for the client of the keeper's job.
func (k *Keeper) Flush() {
	if r := k.route.Load(); r != nil {
		r.flush()
	}
}

// Settle has the keeper leave: all output of the keeper was taken.
func (k *Keeper) Settle() {
	if r := k.route.Load(); r != nil {
		r.settle(k)
	}
}

// Hold has done called when the origin has all output of the keeper; false: no output
// is missing. Unsent tells that the wait was too long.
func (k *Keeper) Hold(done func(unsent bool)) bool {
	r := k.route.Load()
	return r != nil && r.hold(done)
}
