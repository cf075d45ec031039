package overlay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	goyamux "github.com/libp2p/go-yamux/v5"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/filch-hpc/filch"
)

// Times of a Host.
const (
	// ProbeTimeout bounds a probe. A dead machine answers nothing, so this is the
	// cost of a failed redial of a dead machine.
	ProbeTimeout = 1500 * time.Millisecond
	// DialTimeout bounds one try of a dial for waiting frames. A dial may take long
	// on nodes with ranks using all of the CPU. It ends early if the peer is cut,
	// for example after being declared dead.
	DialTimeout = 10 * time.Second
	// AdmitTimeout bounds the time in which a connection must be admitted.
	AdmitTimeout = 10 * time.Second
	// WriteTimeout is how long a connection may accept no byte at all before the
	// host gives it up; more than any harmless pause.
	WriteTimeout = 10 * time.Second
	// redialPause keeps Send from dialing a node again for every frame right after
	// a failed dial.
	redialPause = 100 * time.Millisecond
)

// Config configures a Host.
type Config struct {
	Instance    string // uuid
	Secret      []byte
	Name        filch.NodeName
	Incarnation uint64
	// Listen is IP:PORT, INTERFACE:PORT or :PORT (all interfaces); port 0 or
	// none lets the system choose.
	Listen string
	// Advertise is the IP for other nodes; empty: the IP in Listen.
	Advertise string
	// Attach is called with the host before the host listens, to add protocols to
	// libp2p: each handler added later makes identify notify every peer.
	Attach func(*Host) error
	// Detach, if any, is called first when the host is closed.
	Detach func() error
	// MaxConns and Version replace the constants, for tests; 0 means the
	// constants MaxConns and WireVersion.
	MaxConns int
	Version  uint16
}

// Host is the real Carrier.
type Host struct {
	*dialer
	cfg   Config
	basic *basichost.BasicHost
	net   *swarm.Swarm
	gate  *gate
	known event.Emitter // notifies the protocols of others of an admitted peer
	addr  string

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	ready  chan struct{} // closed when there is a handler
	count  counters
	hooks  atomic.Pointer[Hooks]
	handle atomic.Pointer[Handler]
	tell   atomic.Pointer[func(filch.NodeName, Class)]
	t      table
}

// counters of a Host.
type counters struct {
	class                               [NumClasses]classCounters
	refused, hostile, evicted, accepted atomic.Uint64
}

type classCounters struct {
	framesOut, framesIn, bytesOut, bytesIn, full, lost atomic.Uint64
}

func init() {
	// libp2p writes to stderr by itself, for one when its listener closes.
	gologshim.SetDefaultHandler(slog.DiscardHandler)
}

// NewHost makes a host and listens.
func NewHost(cfg Config) (*Host, error) {
	if err := CheckName(cfg.Name); err != nil {
		return nil, err
	}
	if len(cfg.Instance) == 0 || len(cfg.Instance) > maxInstance {
		return nil, fmt.Errorf("an instance's id has 1 to %d bytes, this one %d", maxInstance, len(cfg.Instance))
	}
	if cfg.Version == 0 {
		cfg.Version = WireVersion
	}
	if cfg.MaxConns == 0 {
		cfg.MaxConns = MaxConns
	}
	listen, advertise, err := resolveListen(cfg.Listen, cfg.Advertise)
	if err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, ready: make(chan struct{})}
	h.dialer = newDialer(h)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.t.init(cfg.Incarnation)
	open := OpenHooks()
	h.hooks.Store(&open)
	if err := h.build(advertise); err != nil {
		h.cancel()
		return nil, err
	}
	if err := h.listen(listen, advertise); err != nil {
		h.cancel()
		h.basic.Close()
		return nil, err
	}
	return h, nil
}

// build makes the libp2p host by hand: libp2p.New would link QUIC and WebRTC, 10 MB
// more of binary at the expense of every start.
func (h *Host) build(advertise net.IP) error {
	key, err := deriveKey(h.cfg.Secret, h.cfg.Name)
	if err != nil {
		return err
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return err
	}
	ps, err := pstoremem.NewPeerstore()
	if err != nil {
		return err
	}
	if err := errors.Join(ps.AddPrivKey(id, key), ps.AddPubKey(id, key.GetPublic())); err != nil {
		return err
	}
	bus := eventbus.NewBus()
	if h.known, err = bus.Emitter(new(event.EvtPeerProtocolsUpdated)); err != nil {
		return err
	}
	if h.gate, err = newGate(h.cfg.Secret, h.cfg.Instance, h.cfg.Version, h.cfg.Name, key); err != nil {
		return err
	}
	h.net, err = swarm.NewSwarm(id, ps, bus,
		swarm.WithDialTimeout(DialTimeout), swarm.WithDialTimeoutLocal(DialTimeout),
		swarm.WithResourceManager(&network.NullResourceManager{}))
	if err != nil {
		return err
	}
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: (*yamux.Transport)(muxConfig())}}
	tls, err := libp2ptls.New(libp2ptls.ID, key, muxers)
	if err != nil {
		return err
	}
	up, err := upgrader.New([]sec.SecureTransport{rawSecurity{tls}}, muxers, nil, nil, nil, upgrader.WithAcceptTimeout(AdmitTimeout))
	if err != nil {
		return err
	}
	if err := h.net.AddTransport(&tcp{host: h, up: up}); err != nil {
		return err
	}
	h.basic, err = basichost.NewHost(h.net, &basichost.HostOpts{
		EventBus: bus, UserAgent: "filch", DisableSignedPeerRecord: true, NegotiationTimeout: AdmitTimeout,
		AddrsFactory: func(own []ma.Multiaddr) []ma.Multiaddr { return advertised(own, advertise) },
	})
	if err != nil {
		return err
	}
	h.register()
	if h.cfg.Attach != nil {
		if err := h.cfg.Attach(h); err != nil {
			h.basic.Close()
			return err
		}
	}
	h.net.SetStreamHandler(h.onStream)
	h.net.Notify((*notifee)(h))
	h.basic.Start()
	return nil
}

// muxConfig tunes yamux. The member list's heartbeats detect silence, so keepalives
// would be pure cost. A stream buffers bytes not yet taken by its reader, so the
// window is the cost of a slow reader.
func muxConfig() *goyamux.Config {
	c := *(*goyamux.Config)(yamux.DefaultTransport)
	c.EnableKeepAlive = false
	c.MeasureRTTInterval = 10 * time.Minute
	c.ConnectionWriteTimeout = WriteTimeout
	c.MaxStreamWindowSize = 1 << 20
	c.AcceptBacklog = 32
	c.MaxIncomingStreams = 64
	return &c
}

func (h *Host) listen(addr *net.TCPAddr, advertise net.IP) error {
	m, err := toMultiaddr(addr.IP, addr.Port)
	if err != nil {
		return err
	}
	if err := h.net.Listen(m); err != nil {
		// The swarm turns the causes into text.
		if strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			return filch.Errorf(filch.Unavailable, "cannot listen on %v: the port is taken by another process", addr).
				WithHint("choose another port, or 0 to let the system choose one")
		}
		if strings.Contains(err.Error(), syscall.EADDRNOTAVAIL.Error()) {
			return filch.Errorf(filch.Invalid, "cannot listen on %v: no interface of this machine has that address", addr)
		}
		return fmt.Errorf("cannot listen on %v: %w", addr, err)
	}
	for _, l := range h.net.ListenAddresses() {
		if _, port, err := fromMultiaddr(l); err == nil {
			h.addr = joinAddr(advertise, port)
			return nil
		}
	}
	return fmt.Errorf("cannot listen on %v: no address", addr)
}

// Name implements Network, as do the other methods without a comment.
func (h *Host) Name() filch.NodeName { return h.cfg.Name }

func (h *Host) Addr() string { return h.addr }

// Libp2p is the host for other packages' protocols, such as package kad's.
func (h *Host) Libp2p() host.Host { return h.basic }

// PeerID is the id of a node of this instance.
func (h *Host) PeerID(name filch.NodeName) (peer.ID, error) { return derivePeer(h.cfg.Secret, name) }

// Admitted reports whether an open connection to a peer has been admitted. Other
// packages' protocols may trust no other peer: a peer with the secret is not yet a
// member.
func (h *Host) Admitted(id peer.ID) bool { return h.t.admitted(h.net.ConnsToPeer(id)) != nil }

func (h *Host) SetHandler(f Handler) {
	if h.handle.Swap(&f) == nil {
		close(h.ready)
	}
}

func (h *Host) SetWritable(f func(filch.NodeName, Class)) { h.tell.Store(&f) }

func (h *Host) SetHooks(k Hooks) { h.hooks.Store(&k) }

func (h *Host) Stats() Stats {
	s := Stats{
		Conns: h.t.conns(), Dials: h.dials.Load(), Failed: h.failed.Load(),
		Refused: h.count.refused.Load(), Hostile: h.count.hostile.Load(),
		Evicted: h.count.evicted.Load(), Accepted: h.count.accepted.Load(),
	}
	for c := range s.Class {
		k := &h.count.class[c]
		s.Class[c] = ClassStats{
			FramesOut: k.framesOut.Load(), FramesIn: k.framesIn.Load(),
			BytesOut: k.bytesOut.Load(), BytesIn: k.bytesIn.Load(),
			Full: k.full.Load(), Lost: k.lost.Load(),
		}
	}
	return s
}

func (h *Host) Close() error {
	if !h.t.close() {
		return nil
	}
	h.cancel()
	var err error
	if h.cfg.Detach != nil {
		err = h.cfg.Detach()
	}
	err = errors.Join(err, h.basic.Close())
	h.wg.Wait()
	return err
}

// onStream handles every stream opened by a peer. Before the peer is admitted only
// the hello is served; the other streams wait for the admission, as the peer may
// know sooner than this node of the mutual admission.
func (h *Host) onStream(s network.Stream) {
	c := h.t.conn(s.Conn())
	if c == nil {
		s.Reset()
		return
	}
	s.SetDeadline(time.Now().Add(AdmitTimeout))
	proto, serve, err := h.basic.Mux().Negotiate(s)
	if err != nil {
		s.Reset()
		return
	}
	if proto != protoHello {
		if err := c.wait(h.ctx, AdmitTimeout); err != nil {
			s.Reset()
			return
		}
	}
	s.SetDeadline(time.Time{})
	if err := s.SetProtocol(proto); err != nil {
		s.Reset()
		return
	}
	serve(proto, s)
}

var _ Carrier = (*Host)(nil)
