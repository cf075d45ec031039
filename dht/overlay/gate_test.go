// In package overlay, since the gate is not exported.
package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/filch-hpc/filch"
)

const testInstance = "0b7f3f0e-6a52-4d0c-9d0b-2f8a5f1f6a11"

var (
	testSecret  = []byte("a secret of thirty-two bytes....")
	otherSecret = []byte("another secret of enough bytes")
)

func testGate(t testing.TB, name filch.NodeName, secret []byte, instance string, version uint16) *gate {
	t.Helper()
	key, err := deriveKey(secret, name)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGate(secret, instance, version, name, key)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func memberGate(t testing.TB, name filch.NodeName) *gate {
	return testGate(t, name, testSecret, testInstance, WireVersion)
}

func testPeer(t testing.TB, name filch.NodeName) peer.ID {
	t.Helper()
	id, err := derivePeer(testSecret, name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// ends are those of a TCP connection, with a deadline.
func ends(t testing.TB) (dialed, accepted net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if dialed, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{dialed, accepted} {
		c.SetDeadline(time.Now().Add(10 * time.Second))
		t.Cleanup(func() { c.Close() })
	}
	return dialed, accepted
}

type outcome struct {
	id  peer.ID
	err error
}

// accepting runs the acceptor's side, and closes as a listener does.
func accepting(g *gate, c net.Conn) <-chan outcome {
	got := make(chan outcome, 1)
	go func() {
		id, err := g.accept(c)
		if err != nil {
			c.Close()
		}
		got <- outcome{id, err}
	}()
	return got
}

func TestGateLetsMembersPass(t *testing.T) {
	for _, c := range []struct {
		name string
		want peer.ID
		as   role
		err  error // of the acceptor
	}{
		{"join", "", joins, nil},
		{"join-of-a-node", testPeer(t, "b"), joins, nil},
		{"probe", testPeer(t, "b"), probes, errProbed},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, a := ends(t)
			got := accepting(memberGate(t, "b"), a)
			id, err := memberGate(t, "a").dial(d, c.want, c.as)
			if err != nil || id != testPeer(t, "b") {
				t.Errorf("the dialer got %v, %v, want node b", id, err)
			}
			g := <-got
			if !errors.Is(g.err, c.err) || c.err == nil && g.id != testPeer(t, "a") {
				t.Errorf("the acceptor got %v, %v, want node a or %v", g.id, g.err, c.err)
			}
		})
	}
}

// Each pair of launchers that must not meet is told so at the dialer, and the
// acceptor lets nobody in.
func TestGateRefuses(t *testing.T) {
	member := memberGate(t, "b")
	for _, c := range []struct {
		name   string
		dialer *gate
		want   peer.ID
		code   Code // 0: no refusal
		text   string
	}{
		{"wrong-secret", testGate(t, "a", otherSecret, testInstance, WireVersion), "", WrongSecret, "the secret of node a is not the one of this instance"},
		{"other-instance", testGate(t, "a", testSecret, "another", WireVersion), "", WrongInstance, "this launcher is of instance another"},
		{"both", testGate(t, "a", otherSecret, "another", WireVersion), "", WrongInstance, "different instances and have different secrets"},
		{"newer", testGate(t, "a", testSecret, testInstance, WireVersion+5), "", WrongVersion, fmt.Sprintf("that dialed speaks wire version %d, the one that it dialed %d", WireVersion+5, WireVersion)},
		{"other-node", memberGate(t, "a"), testPeer(t, "c"), 0, "another node of this instance answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, a := ends(t)
			got := accepting(member, a)
			_, err := c.dialer.dial(d, c.want, joins)
			d.Close()
			var r *Refusal
			if errors.As(err, &r) != (c.code != 0) || r != nil && r.Code != c.code || err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("the dialer got %v, want code %d and %q", err, c.code, c.text)
			}
			if g := <-got; g.err == nil {
				t.Errorf("the acceptor let %v in", g.id)
			}
		})
	}
}

// attack is a stranger that dials: its offer, and its proof when it has seen the
// answer.
type attack struct {
	name  string
	offer func(t *testing.T) []byte
	proof func(t *testing.T, answer []byte) []byte
}

// recorded is a talk of two members as somebody on the wire sees it.
func recorded(t *testing.T, dialer, acceptor *gate, as role) (offer, answer, proof []byte) {
	t.Helper()
	d, a := ends(t)
	got := accepting(acceptor, a)
	var said, heard bytes.Buffer
	tapped := struct {
		io.Reader
		io.Writer
	}{io.TeeReader(d, &heard), io.MultiWriter(d, &said)}
	if _, err := dialer.dial(tapped, "", as); err != nil {
		t.Fatal(err)
	}
	<-got
	return said.Bytes()[:offerSize], heard.Bytes(), said.Bytes()[offerSize:]
}

// Whoever does not know the secret proves nothing, whatever it has heard.
func TestGateLetsNoStrangerPass(t *testing.T) {
	a, b := memberGate(t, "a"), memberGate(t, "b")
	offer, answer, proof := recorded(t, a, b, joins)
	_, _, probe := recorded(t, a, b, probes)
	fixed := func(b []byte) func(*testing.T) []byte { return func(*testing.T) []byte { return b } }
	after := func(b []byte) func(*testing.T, []byte) []byte {
		return func(*testing.T, []byte) []byte { return b }
	}
	changed := func(at int) []byte {
		c := slices.Clone(offer)
		c[at] ^= 1
		return c
	}
	for _, c := range []attack{
		{"replayed", fixed(offer), after(proof)},
		{"replayed-probe", fixed(offer), after(probe)},
		{"reflected", fixed(offer), func(_ *testing.T, answer []byte) []byte { return answer[len(answer)-proofSize:] }},
		{"reflected-of-a-talk-before", fixed(offer), after(answer[len(answer)-proofSize:])},
		{
			// The stranger dials the acceptor a second time, with what that said
			// as an offer, to have it make the proof.
			"reflected-through-a-second-connection", fixed(offer), func(t *testing.T, answer []byte) []byte {
				d, o := ends(t)
				accepting(b, o)
				d.Write(answer[:offerSize])
				other := make([]byte, answerSize)
				if _, err := io.ReadFull(d, other); err != nil {
					t.Fatal(err)
				}
				return other[len(other)-proofSize:]
			},
		},
		{"another-nonce", fixed(changed(headSize)), after(proof)},
		{"another-key", fixed(changed(headSize + nonceSize)), after(proof)},
		{"zeroes", fixed(offer), after(make([]byte, proofSize))},
		{"truncated-offer", fixed(offer[:offerSize-1]), nil},
		{"truncated-proof", fixed(offer), after(proof[:proofSize-1])},
		{"nothing", fixed(nil), nil},
		{"oversize-offer", fixed(append(slices.Clone(offer), make([]byte, 1<<20)...)), nil},
		{"http", fixed([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), nil},
		{"tls", fixed([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")), nil},
		{"other-version", fixed(append([]byte(helloMagic+"\x00\x09"), offer[headSize:]...)), after(proof)},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, o := ends(t)
			got := accepting(b, o)
			d.Write(c.offer(t))
			if c.proof != nil {
				answer := make([]byte, answerSize)
				n, _ := io.ReadFull(d, answer)
				d.Write(c.proof(t, answer[:n]))
			}
			d.(*net.TCPConn).CloseWrite()
			if g := <-got; g.err == nil || errors.Is(g.err, errProbed) {
				t.Errorf("the acceptor let %v in: %v", g.id, g.err)
			}
		})
	}
}

// A stranger that listens where a launcher was gets no proof that it could use.
func TestGateTellsNoStrangerAnything(t *testing.T) {
	a, b := memberGate(t, "a"), memberGate(t, "b")
	_, answer, _ := recorded(t, a, b, joins)
	for _, c := range []struct {
		name  string
		reply func(offer []byte) []byte
	}{
		{"replayed-answer", func([]byte) []byte { return answer }},
		{"reflected-offer", func(offer []byte) []byte { return append(slices.Clone(offer), make([]byte, tagSize+proofSize)...) }},
		{"truncated-answer", func([]byte) []byte { return answer[:answerSize-1] }},
		{"garbage", func([]byte) []byte { return []byte("SSH-2.0-OpenSSH_9.2\r\n") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, o := ends(t)
			said := make(chan []byte, 1)
			go func() {
				offer := make([]byte, offerSize)
				io.ReadFull(o, offer)
				o.Write(c.reply(offer))
				o.(*net.TCPConn).CloseWrite()
				more, _ := io.ReadAll(o)
				said <- more
			}()
			if id, err := a.dial(d, "", joins); err == nil {
				t.Errorf("the dialer took the stranger for %v", id)
			}
			d.Close()
			if more := <-said; len(more) > 0 {
				t.Errorf("the dialer said %d more bytes", len(more))
			}
		})
	}
}

// A frame may come in any pieces.
func TestGateReadsPieces(t *testing.T) {
	d, o := ends(t)
	got := make(chan outcome, 1)
	go func() {
		id, err := memberGate(t, "b").accept(struct {
			io.Reader
			io.Writer
		}{iotest.OneByteReader(o), o})
		got <- outcome{id, err}
	}()
	if _, err := memberGate(t, "a").dial(d, "", joins); err != nil {
		t.Error(err)
	}
	if g := <-got; g.err != nil {
		t.Error(g.err)
	}
}

// FuzzGate feeds both sides with what strangers say: no side is convinced, and
// none reads more than its frames.
func FuzzGate(f *testing.F) {
	g := memberGate(f, "b")
	f.Add(append(g.head(), make([]byte, answerSize)...))
	f.Add([]byte(multistreamHeader + "\x0b/tls/1.0.0\n"))
	f.Add(append([]byte(helloMagic), 0, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, side := range []struct {
			most int
			run  func(io.ReadWriter) (peer.ID, error)
		}{
			{offerSize + proofSize, g.accept},
			{answerSize, func(c io.ReadWriter) (peer.ID, error) { return g.dial(c, "", joins) }},
		} {
			r := bytes.NewReader(b)
			id, err := side.run(struct {
				io.Reader
				io.Writer
			}{r, io.Discard})
			if err == nil || errors.Is(err, errProbed) {
				t.Fatalf("%x proves that it is %v", b, id)
			}
			if n := len(b) - r.Len(); n > side.most {
				t.Fatalf("%d bytes of %x were read, at most %d", n, b, side.most)
			}
		}
	})
}
