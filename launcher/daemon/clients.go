package daemon

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	local "github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon/api"
	"github.com/filch-hpc/filch/launcher/daemon/dataplane"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of the clients' socket.
const (
	maxClients   = 4096
	helloTimeout = 10 * time.Second
)

// clients holds the connections of local clients.
type clients struct {
	d        *Daemon
	listener *net.UnixListener

	mu     sync.Mutex // guards byID, next and closed
	byID   map[launcher.ClientID]*client
	next   launcher.ClientID
	closed bool
}

// client is one connection.
type client struct {
	dataplane.Client
	id       launcher.ClientID
	sock     *net.UnixConn
	pid      int
	finished atomic.Bool // the client received the end of its job
	lines    atomic.Bool // the client speaks lines of JSON, and no frames
	offer    staging.Offer
}

func newClients(d *Daemon) *clients {
	return &clients{d: d, byID: map[launcher.ClientID]*client{}}
}

// listen opens the socket. The launcher holds the lock of the state directory, so an
// existing socket file belongs to a dead launcher.
func (cs *clients) listen() error {
	path := cs.d.cfg.Dir.Socket()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return filch.Errorf(filch.Invalid, "cannot remove the stale socket %s: %s", path, err.Error())
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return filch.Errorf(filch.Invalid, "cannot listen on %s: %s", path, err.Error())
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return filch.Errorf(filch.Invalid, "cannot listen on %s: %s", path, err.Error())
	}
	cs.listener = l
	return nil
}

// accept admits clients until the listener is closed.
func (cs *clients) accept() {
	for {
		sock, err := cs.listener.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Most likely out of descriptors: open connections continue.
			cs.d.in.Watch.Log().Warn("cannot take a client", "err", err.Error())
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-cs.d.in.Context().Done():
				return
			}
		}
		c, err := cs.admit(sock)
		if err != nil {
			cs.d.in.Watch.Refused(watch.ClientsRefused, "client", err, "")
			continue
		}
		cs.d.in.Go(func() { cs.serve(c) })
	}
}

// admit accepts a client of this launcher's uid and refuses any other.
func (cs *clients) admit(sock *net.UnixConn) (*client, error) {
	pid, err := checkPeer(sock)
	if err != nil {
		return nil, refuse(sock, err)
	}
	c := &client{sock: sock, pid: pid}
	c.Attach(sock)
	cs.mu.Lock()
	if cs.closed || len(cs.byID) >= maxClients {
		n := len(cs.byID)
		cs.mu.Unlock()
		return nil, refuse(sock, filch.Errorf(filch.Busy, "%d clients are connected already", n))
	}
	cs.next++
	c.id = cs.next
	cs.byID[c.id] = c
	cs.mu.Unlock()
	cs.d.in.Watch.Add(watch.Clients, 1)
	return c, nil
}

// refuse sends the client the reason, closes the socket and returns err.
func refuse(sock net.Conn, err error) error {
	conn := wire.NewConn(sock)
	hint := ""
	var e *filch.Error
	if errors.As(err, &e) {
		hint = e.Hint
	}
	_ = conn.WriteRaw(wire.KindRefusal, 0, wire.EncodeRefusal(err.Error(), hint))
	_ = conn.Flush()
	_ = conn.Close()
	return err
}

// checkPeer refuses a client of another user, and returns the client's process.
func checkPeer(sock *net.UnixConn) (pid int, err error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := raw.Control(func(fd uintptr) { pid, err = place.CheckPeer(int(fd)) }); e != nil {
		return 0, e
	}
	return pid, err
}

func (cs *clients) find(id launcher.ClientID) *client {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.byID[id]
}

// Process returns the process of a client, 0 if the client is gone.
func (cs *clients) Process(id launcher.ClientID) int {
	if c := cs.find(id); c != nil {
		return c.pid
	}
	return 0
}

// Count returns the number of clients.
func (cs *clients) Count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.byID)
}

// serve handles the frames of a client until the client closes the connection.
func (cs *clients) serve(c *client) {
	err := cs.speak(c)
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, unix.ECONNRESET) {
		cs.d.in.Watch.Refused(watch.FramesBad, "client", err, "")
		hint := ""
		var e *filch.Error
		if errors.As(err, &e) {
			hint = e.Hint
		}
		_ = c.Conn.WriteRaw(wire.KindRefusal, 0, wire.EncodeRefusal(err.Error(), hint))
		_ = c.Conn.Flush()
	}
	cs.mu.Lock()
	delete(cs.byID, c.id)
	cs.mu.Unlock()
	_ = c.Conn.Close()
	cs.d.routes.Unbind(&c.Client)
	cs.d.copies.OnClientGone(&c.offer)
	c.CreditRest()
	if c.finished.Load() {
		return
	}
	cs.d.in.Post(func(t *inputs.Turn) { t.Node.ClientGone(t.Now, c.id, t.Out) })
}

// speak reads frames or, if the first byte begins an object of JSON, lines: no frame is so long
// that its length begins with this byte.
func (cs *clients) speak(c *client) error {
	_ = c.sock.SetReadDeadline(time.Now().Add(helloTimeout))
	first, err := peek(c.sock)
	if err != nil || first != '{' {
		return cs.read(c)
	}
	_ = c.sock.SetReadDeadline(time.Time{})
	c.lines.Store(true)
	if err := api.Serve(c.sock, cs.launcher()); err != nil {
		cs.d.in.Watch.Refused(watch.FramesBad, "client", err, "")
	}
	return io.EOF
}

// launcher is this launcher as the lines' clients see it.
func (cs *clients) launcher() api.Launcher {
	cfg := &cs.d.cfg
	return api.Launcher{
		Node: cs.d.in.Self, Instance: cfg.Dir.Instance, Build: cfg.Build, Socket: cfg.Dir.Socket(), Incarnation: cfg.Node.Incarnation,
		Dial:        func() (*local.Client, error) { return local.DialDir(cfg.Dir, cfg.Build) },
		AwaitChange: cs.d.AwaitChange,
	}
}

// peek waits for the first byte, and leaves the byte where it is.
func peek(sock *net.UnixConn) (byte, error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return 0, err
	}
	var b [1]byte
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, _, failed = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return failed != unix.EAGAIN && failed != unix.EINTR
	})
	if err == nil && failed == nil && n == 0 {
		err = io.EOF
	}
	return b[0], errors.Join(err, failed)
}

func (cs *clients) read(c *client) error {
	_ = c.sock.SetReadDeadline(time.Now().Add(helloTimeout))
	f, err := c.Conn.Read()
	if err != nil {
		return err
	}
	if f.Kind != wire.KindHello {
		return filch.Errorf(filch.Invalid, "the first frame is %s, not hello", f.Kind)
	}
	if _, err := wire.DecodeHello(f.Body); err != nil {
		return err
	}
	_ = c.sock.SetReadDeadline(time.Time{})
	for {
		if f, err = c.Conn.Read(); err != nil {
			return err
		}
		if err := cs.dispatch(c, f); err != nil {
			return err
		}
	}
}

// close ends all connections.
func (cs *clients) close() {
	if cs.listener != nil {
		cs.listener.Close()
		_ = os.Remove(cs.d.cfg.Dir.Socket())
	}
	cs.mu.Lock()
	cs.closed = true
	all := make([]*client, 0, len(cs.byID))
	for _, c := range cs.byID {
		all = append(all, c)
	}
	cs.mu.Unlock()
	for _, c := range all {
		if c.lines.Load() {
			_ = c.sock.CloseRead() // the end of the requests ends the connection
			continue
		}
		_ = c.Conn.Drain(closeDrain)
		_ = c.Conn.Close()
	}
}

// closeDrain limits how long an ending launcher lets a client read queued frames.
const closeDrain = 200 * time.Millisecond
