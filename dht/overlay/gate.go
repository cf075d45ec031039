package overlay

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/filch-hpc/filch"
)

// gate makes both ends of a fresh connection prove their knowledge of the secret,
// before a byte of libp2p is exchanged. A stranger gets no TLS and nothing behind
// TLS: the muxer keeps memory for each stream, and identify and kademlia query
// each peer.
//
//	dialer -> acceptor  offer:  magic, version, nonce, key
//	acceptor -> dialer  answer: magic, version, nonce, key, tag, MAC
//	dialer -> acceptor  proof:  MAC
//
// The proof goes out with the dialer's next bytes, so the gate costs one round
// trip. All frames have fixed sizes. Magic and version are the first bytes of both
// sides in every version, as in a hello: a launcher receiving another version
// answers with its own version and nothing else.
//
// A MAC is keyed by the secret and covers the role, the version, both nonces,
// both keys and the tag, which is a hash of the instance's id and the nonces.
// So a proof is good for one connection (replay), in one direction
// (reflection), in one version and one instance. The tag lets a dialer tell a
// wrong secret from a wrong instance, and tells a stranger neither.
//
// The keys are the public keys used by TLS afterwards, and TLS refuses every other
// key. So an attacker relaying the frames of two launchers, to take over the
// connection after the proofs, gains nothing: TLS needs a private key, which is
// derived from the secret and the name of a node.
type gate struct {
	name     filch.NodeName
	instance string
	version  uint16
	secret   []byte // derived: the key of the MAC
	key      publicKey
}

type publicKey [ed25519.PublicKeySize]byte

// The sizes of the gate's frames and of their parts.
const (
	nonceSize  = 32
	tagSize    = 16
	headSize   = len(helloMagic) + 2
	offerSize  = headSize + nonceSize + ed25519.PublicKeySize
	answerSize = offerSize + tagSize + sha256.Size
	proofSize  = sha256.Size
)

// role is the sender of a MAC, with the sender's intent.
type role byte

const (
	accepts role = iota + 1
	joins        // a dialer that goes on with TLS
	probes       // a dialer with no further need of the connection
)

// talk is the data sent by both sides.
type talk struct {
	nonces [2][nonceSize]byte // the dialer's, the acceptor's
	keys   [2]publicKey
	tag    [tagSize]byte
}

func newGate(secret []byte, instance string, version uint16, name filch.NodeName, key crypto.PrivKey) (*gate, error) {
	g := &gate{name: name, instance: instance, version: version}
	var err error
	if g.secret, err = hkdf.Key(sha256.New, secret, nil, "filch gate", sha256.Size); err != nil {
		return nil, err
	}
	raw, err := key.GetPublic().Raw()
	if err != nil {
		return nil, err
	}
	copy(g.key[:], raw)
	return g, nil
}

// Errors of the gate.
var (
	errProbed   = errors.New("the dialer has learnt what it wanted to know")
	errStranger = errors.New("no proof that it knows the secret")
	errOther    = errors.New("another node of this instance answers there")
)

// dial proves the secret to the acceptor of a connection and verifies the
// acceptor's proof. It returns the acceptor's id; with an id given, it fails if
// another node answers.
func (g *gate) dial(c io.ReadWriter, want peer.ID, as role) (peer.ID, error) {
	var t talk
	rand.Read(t.nonces[0][:])
	t.keys[0] = g.key
	if _, err := c.Write(g.hail(&t, 0)); err != nil {
		return "", err
	}
	var b [answerSize]byte
	version, err := readHead(c, b[:headSize])
	switch {
	case errors.Is(err, errUngated):
		return "", versionRefusal(g.version, ungatedVersion)
	case err != nil:
		return "", err
	case version != g.version:
		return "", versionRefusal(g.version, version)
	}
	if _, err := io.ReadFull(c, b[headSize:]); err != nil {
		return "", err
	}
	rest := t.take(1, b[headSize:])
	copy(t.tag[:], rest)
	known := hmac.Equal(rest[tagSize:], g.mac(accepts, &t))
	same := hmac.Equal(t.tag[:], g.tagOf(&t))
	switch {
	case !same && known:
		return "", &Refusal{Code: WrongInstance, Text: fmt.Sprintf("this launcher is of instance %s, the other one of another that has the same secret", g.instance)}
	case !same:
		return "", &Refusal{Code: WrongInstance, Text: "the two launchers are of different instances and have different secrets"}
	case !known:
		return "", &Refusal{Code: WrongSecret, Text: fmt.Sprintf("the secret of node %s is not the one of this instance", g.name)}
	}
	id, err := t.peer(1)
	if err == nil && want != "" && want != id {
		err = errOther
	}
	if err != nil {
		return "", err
	}
	_, err = c.Write(g.mac(as, &t))
	return id, err
}

// accept is dial's other side. It returns the dialer's id, or errProbed.
func (g *gate) accept(c io.ReadWriter) (peer.ID, error) {
	var t talk
	var b [offerSize]byte
	version, err := readHead(c, b[:headSize])
	switch {
	case errors.Is(err, errUngated):
		r := versionRefusal(ungatedVersion, g.version)
		_, err := c.Write(ungatedRefusal(r))
		return "", errors.Join(r, err)
	case err != nil:
		return "", err
	case version != g.version:
		_, err := c.Write(g.head())
		return "", errors.Join(versionRefusal(version, g.version), err)
	}
	if _, err := io.ReadFull(c, b[headSize:]); err != nil {
		return "", err
	}
	t.take(0, b[headSize:])
	rand.Read(t.nonces[1][:])
	t.keys[1] = g.key
	copy(t.tag[:], g.tagOf(&t))
	answer := append(g.hail(&t, 1), t.tag[:]...)
	if _, err := c.Write(append(answer, g.mac(accepts, &t)...)); err != nil {
		return "", err
	}
	var proof [proofSize]byte
	if _, err := io.ReadFull(c, proof[:]); err != nil {
		return "", err
	}
	switch {
	case hmac.Equal(proof[:], g.mac(joins, &t)):
		return t.peer(0)
	case hmac.Equal(proof[:], g.mac(probes, &t)):
		return "", errProbed
	}
	return "", errStranger
}

func (g *gate) head() []byte { return binary.BigEndian.AppendUint16([]byte(helloMagic), g.version) }

// hail is the first part of either side's first frame.
func (g *gate) hail(t *talk, side int) []byte {
	b := append(make([]byte, 0, answerSize), g.head()...)
	b = append(b, t.nonces[side][:]...)
	return append(b, t.keys[side][:]...)
}

// take reads nonce and key from b, and returns the rest of b.
func (t *talk) take(side int, b []byte) (rest []byte) {
	b = b[copy(t.nonces[side][:], b):]
	return b[copy(t.keys[side][:], b):]
}

func (t *talk) peer(side int) (peer.ID, error) {
	k, err := crypto.UnmarshalEd25519PublicKey(t.keys[side][:])
	if err != nil {
		return "", err
	}
	return peer.IDFromPublicKey(k)
}

// mac has fixed-size parts only, so no two talks have the same encoding.
func (g *gate) mac(as role, t *talk) []byte {
	h := hmac.New(sha256.New, g.secret)
	h.Write([]byte{byte(as), byte(g.version >> 8), byte(g.version)})
	for i := range t.nonces {
		h.Write(t.nonces[i][:])
		h.Write(t.keys[i][:])
	}
	h.Write(t.tag[:])
	return h.Sum(nil)
}

func (g *gate) tagOf(t *talk) []byte {
	h := sha256.New()
	h.Write(t.nonces[0][:])
	h.Write(t.nonces[1][:])
	h.Write([]byte(g.instance))
	return h.Sum(nil)[:tagSize]
}

// readHead reads magic and version into b.
func readHead(r io.Reader, b []byte) (version uint16, err error) {
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, err
	}
	switch {
	case string(b[:len(helloMagic)]) == helloMagic:
		return binary.BigEndian.Uint16(b[len(helloMagic):]), nil
	case string(b) == multistreamHeader[:headSize]:
		return 0, errUngated
	}
	return 0, errStranger
}

// Launchers of wire version 1 have no gate: both sides begin with the header of
// multistream.
const (
	ungatedVersion    = 1
	multistreamHeader = "\x13/multistream/1.0.0\n"
)

var errUngated = errors.New("a launcher without a gate")

// ungatedRefusal puts a refusal where a launcher without a gate expects the name of
// a protocol: such a launcher prints the name.
func ungatedRefusal(r *Refusal) []byte {
	b := binary.AppendUvarint([]byte(multistreamHeader), uint64(len(r.Text)+1))
	return append(append(b, r.Text...), '\n')
}
