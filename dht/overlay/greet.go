package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multistream"
)

// The protocols of a Host. protoHello never changes: the version in its first bytes
// gives the rest a meaning.
const (
	protoHello protocol.ID = "/filch/hello"
	protoBye   protocol.ID = "/filch/bye/1"
)

var protoClass = [NumClasses]protocol.ID{"/filch/gossip/1", "/filch/control/1", "/filch/metadata/1", "/filch/bulk/1"}

// register installs the handlers of the host's own protocols.
func (h *Host) register() {
	h.basic.Mux().AddHandler(protoHello, func(_ protocol.ID, s io.ReadWriteCloser) error {
		h.serveHello(s.(network.Stream))
		return nil
	})
	h.basic.Mux().AddHandler(protoBye, func(_ protocol.ID, s io.ReadWriteCloser) error {
		h.serveBye(s.(network.Stream))
		return nil
	})
	unknown := func(p protocol.ID) bool {
		return strings.HasPrefix(string(p), "/filch/") && p != protoHello && p != protoBye &&
			!slices.Contains(protoClass[:], p) && !strings.HasPrefix(string(p), "/filch/kad/")
	}
	h.basic.Mux().AddHandlerWithFunc("/filch/unknown", unknown, func(_ protocol.ID, s io.ReadWriteCloser) error {
		h.count.hostile.Add(1)
		return s.(network.Stream).Reset()
	})
	for c, p := range protoClass {
		h.basic.Mux().AddHandler(p, func(_ protocol.ID, s io.ReadWriteCloser) error {
			h.serveClass(s.(network.Stream), Class(c))
			return nil
		})
	}
}

func (h *Host) hello() Hello {
	h.t.mu.RLock()
	inc := h.t.incarnation
	h.t.mu.RUnlock()
	return Hello{Version: h.cfg.Version, Instance: h.cfg.Instance, Name: h.cfg.Name, Incarnation: inc, Card: h.hooks.Load().Card()}
}

// greet sends the hello on a connection dialed by this node. A dial alone proves
// nothing: with TLS 1.3 a dial succeeds before the other side has checked the
// dialer's certificate.
func (h *Host) greet(c *conn) {
	who, err := h.exchange(c)
	if err == nil {
		err = h.adopt(c, who)
	}
	if err != nil {
		c.settle(Hello{}, err)
		c.net.Close()
	}
}

func (h *Host) exchange(c *conn) (Hello, error) {
	ctx, cancel := context.WithTimeout(h.ctx, AdmitTimeout)
	defer cancel()
	s, err := c.net.NewStream(ctx)
	if err != nil {
		return Hello{}, err
	}
	defer s.Reset()
	s.SetDeadline(time.Now().Add(AdmitTimeout))
	lazy := multistream.NewMSSelect(s, protoHello)
	if _, err := lazy.Write(appendBlock(nil, encodeHello(h.hello()))); err != nil {
		return Hello{}, err
	}
	b, err := readBlock(lazy, maxHello)
	if err != nil {
		return Hello{}, fmt.Errorf("no answer to the hello: %w", err)
	}
	who, err := decodeAnswer(b, h.cfg.Version)
	if err != nil {
		return Hello{}, err
	}
	if r := h.verify(c, who); r != nil {
		return Hello{}, r
	}
	if r := h.hooks.Load().Admit(ctx, who); r != nil {
		h.count.refused.Add(1)
		return Hello{}, NotAdmitted(who.Name, r)
	}
	return who, nil
}

// verify checks a peer's identity against the hello. The gate has let in only peers
// with the secret of this instance in this version; the key of the connection
// determines which node the peer is.
func (h *Host) verify(c *conn, who Hello) *Refusal {
	if who.Version != h.cfg.Version {
		return versionRefusal(who.Version, h.cfg.Version)
	}
	if who.Instance != h.cfg.Instance {
		return &Refusal{Code: WrongInstance, Text: fmt.Sprintf("this launcher is of instance %s, the other one of %s", who.Instance, h.cfg.Instance)}
	}
	if want, err := derivePeer(h.cfg.Secret, who.Name); err != nil || want != c.net.RemotePeer() {
		return &Refusal{Code: WrongSecret, Text: fmt.Sprintf("the key of this connection is not that of node %s", who.Name)}
	}
	return nil
}

// expect closes an incoming connection without a timely hello.
func (h *Host) expect(c *conn) {
	if err := c.wait(h.ctx, AdmitTimeout); err == nil {
		return
	} else if c.settle(Hello{}, err) {
		h.count.refused.Add(1)
		c.net.Close()
	}
}

func (h *Host) serveHello(s network.Stream) {
	defer s.Close()
	c := h.t.conn(s.Conn())
	if c == nil {
		s.Reset()
		return
	}
	if c.net.Stat().Direction != network.DirInbound || c.hello().Name != "" {
		h.count.hostile.Add(1)
		s.Reset()
		return
	}
	s.SetDeadline(time.Now().Add(AdmitTimeout))
	r := h.receive(c, s)
	if r == nil {
		if _, err := s.Write(appendBlock(nil, encodeAnswer(nil, h.hello()))); err != nil {
			c.net.Close()
		}
		return
	}
	h.count.refused.Add(1)
	c.settle(Hello{}, r)
	if _, err := s.Write(appendBlock(nil, encodeAnswer(r, Hello{}))); err == nil {
		// The dialer closes after reading the reason; a close from here would
		// overtake the answer.
		s.CloseWrite()
		t := time.NewTimer(time.Second)
		defer t.Stop()
		select {
		case <-c.gone:
		case <-t.C:
		case <-h.ctx.Done():
		}
	}
	c.net.Close()
}

// receive reads a hello and admits the peer.
func (h *Host) receive(c *conn, s network.Stream) *Refusal {
	b, err := readBlock(s, maxHello)
	if err != nil {
		return &Refusal{Code: BadHello, Text: "no hello came"}
	}
	who, err := decodeHello(b, h.cfg.Version)
	if err != nil {
		h.count.hostile.Add(1)
		return &Refusal{Code: BadHello, Text: err.Error()}
	}
	if r := h.verify(c, who); r != nil {
		return r
	}
	ctx, cancel := context.WithTimeout(h.ctx, AdmitTimeout)
	defer cancel()
	if r := h.hooks.Load().Admit(ctx, who); r != nil {
		return r
	}
	if err := h.adopt(c, who); err != nil {
		return &Refusal{Code: TooMany, Text: err.Error()}
	}
	return nil
}

var errRefused = errors.New("the connection closed right after it was made: not admitted")
