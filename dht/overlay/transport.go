package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Times of connections before TLS.
const (
	// proofTimeout bounds the time for the proof on an incoming connection, however
	// slowly the bytes come. A launcher takes a millisecond; on a machine with
	// ranks using all of the CPU, some hundred.
	proofTimeout = 5 * time.Second
	// refusalTimeout bounds the time for a launcher of another version to read the
	// refusal.
	refusalTimeout = time.Second
	// keepAlive is the pause between the kernel's probes of a silent connection.
	keepAlive = 30 * time.Second
	// acceptPause is how long accepting rests if the system has no descriptor or
	// memory for one more connection.
	acceptPause = 10 * time.Millisecond
)

// tcp is libp2p's transport of a Host: TCP with the gate in front. libp2p sees a
// connection only after it has passed the gate. libp2p's own transport has no place
// for a gate, and links WebSockets.
type tcp struct {
	host *Host
	up   transport.Upgrader
}

// proven is a connection past the gate.
type proven struct {
	manet.Conn
	peer peer.ID
}

func (t *tcp) CanDial(a ma.Multiaddr) bool {
	_, _, err := fromMultiaddr(a)
	return err == nil
}

func (t *tcp) Protocols() []int { return []int{ma.P_TCP} }

func (t *tcp) Proxy() bool { return false }

func (t *tcp) Dial(ctx context.Context, addr ma.Multiaddr, p peer.ID) (transport.CapableConn, error) {
	raw, id, err := t.host.dialer.knock(ctx, printable(addr), p, joins)
	if err != nil {
		return nil, err
	}
	unlinger(raw)
	c, err := manet.WrapNetConn(raw)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return t.up.Upgrade(ctx, t, &proven{c, id}, network.DirOutbound, p, &network.NullScope{})
}

// knock connects to an address and passes the gate of the launcher listening there;
// with an id given, the launcher must have this id. knock ends with its context, at
// the latest; libp2p gives a dial DialTimeout.
func (d *dialer) knock(ctx context.Context, addr string, want peer.ID, as role) (net.Conn, peer.ID, error) {
	tcp := net.Dialer{KeepAlive: keepAlive}
	c, err := tcp.DialContext(ctx, "tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, "", err
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	id, err := d.host.gate.dial(c, want, as)
	if !stop() {
		err = fmt.Errorf("%w: %w", errHung, ctx.Err()) // the deadline may be set any time now
	}
	if err == nil {
		return c, id, nil
	}
	c.Close()
	var r *Refusal
	var op *net.OpError
	if errors.As(err, &r) || errors.Is(err, errOther) || errors.Is(err, errHung) {
		return nil, "", err
	}
	if errors.As(err, &op) {
		err = op.Err
	}
	return nil, "", fmt.Errorf("no launcher of filch answers there: %w", err)
}

// errHung is the error of a dial that a process took, for example a stopped one.
var errHung = errors.New("a process took the connection, and did not answer")

// unlinger makes a close end the connection at once. Otherwise the kernel would
// keep the port for a minute, and with it any bytes unread by the peer.
func unlinger(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
}

func (t *tcp) Listen(addr ma.Multiaddr) (transport.Listener, error) {
	proto, where, err := manet.DialArgs(addr)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{KeepAlive: -1} // set after the proof: four system calls
	raw, err := lc.Listen(t.host.ctx, proto, where)
	if err != nil {
		return nil, err
	}
	at, err := manet.FromNetAddr(raw.Addr())
	if err != nil {
		raw.Close()
		return nil, err
	}
	l := &listener{Listener: raw, host: t.host, at: at, unproven: newUnproven(), proven: make(chan manet.Conn), done: make(chan struct{})}
	l.wg.Go(l.loop)
	return t.up.UpgradeGatedMaListener(t, t.up.GateMaListener(l)), nil
}

// listener hands out the connections past the gate.
type listener struct {
	net.Listener
	host     *Host
	at       ma.Multiaddr
	unproven *unproven
	proven   chan manet.Conn
	done     chan struct{}
	once     sync.Once
	wg       sync.WaitGroup
}

func (l *listener) Multiaddr() ma.Multiaddr { return l.at }

func (l *listener) Accept() (manet.Conn, error) {
	select {
	case c := <-l.proven:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	var err error
	l.once.Do(func() {
		close(l.done)
		err = l.Listener.Close()
		l.unproven.close()
	})
	l.wg.Wait()
	return err
}

func (l *listener) loop() {
	for {
		c, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.unproven.spare()
			select {
			case <-time.After(acceptPause):
			case <-l.done:
				return
			}
			continue
		}
		l.begin(c)
	}
}

// begin gives an incoming connection a deadline and a place among the unproven.
func (l *listener) begin(c net.Conn) {
	unlinger(c)
	c.SetDeadline(time.Now().Add(proofTimeout))
	if p := l.unproven.add(c); p != nil {
		l.wg.Go(func() { l.prove(c, p) })
	}
}

// prove makes a connection pass the gate, or closes it.
func (l *listener) prove(raw net.Conn, p *place) {
	id, err := l.host.gate.accept(raw)
	var r *Refusal
	if errors.As(err, &r) {
		farewell(raw)
	}
	l.unproven.remove(p)
	var c manet.Conn
	if err == nil {
		c, err = manet.WrapNetConn(raw)
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		if !errors.Is(err, errProbed) {
			l.host.count.refused.Add(1)
		}
		raw.Close()
		return
	}
	if t, ok := raw.(*net.TCPConn); ok {
		t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive})
	}
	select {
	case l.proven <- &proven{c, id}:
	case <-l.done:
		raw.Close()
	}
}

// farewell waits until the refused other side has closed: a close from here would
// overtake the refusal.
func farewell(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok || t.CloseWrite() != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(refusalTimeout))
	io.Copy(io.Discard, io.LimitReader(c, maxText))
}
