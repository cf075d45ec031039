package overlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/filch-hpc/filch"
)

// WireVersion is the version of everything launchers send to each other. Launchers
// of different versions refuse each other.
const WireVersion = 2

// Limits of a hello. The form of its first bytes and of a refusal never change, so
// every version can tell every other version the reason of a refusal.
const (
	maxHello    = 16 << 10
	maxCard     = 8 << 10
	maxInstance = 64
	maxText     = 512
)

const helloMagic = "filch\x00"

var errHello = errors.New("not a hello of filch")

// encodeHello encodes a hello: magic, version, then length-prefixed fields.
func encodeHello(h Hello) []byte {
	b := append([]byte(nil), helloMagic...)
	b = binary.BigEndian.AppendUint16(b, h.Version)
	b = appendField(b, []byte(h.Instance))
	b = appendField(b, []byte(h.Name))
	b = binary.BigEndian.AppendUint64(b, h.Incarnation)
	return appendField(b, h.Card)
}

func appendField(b, f []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(f)))
	return append(b, f...)
}

// decodeHello reads a hello. If the hello is of another version than ours, only the
// version is read.
func decodeHello(b []byte, ours uint16) (h Hello, err error) {
	if len(b) < len(helloMagic)+2 || string(b[:len(helloMagic)]) != helloMagic {
		return h, errHello
	}
	b = b[len(helloMagic):]
	h.Version = binary.BigEndian.Uint16(b)
	if h.Version != ours {
		return h, nil
	}
	b = b[2:]
	var instance, name []byte
	if instance, b, err = takeField(b, maxInstance); err != nil {
		return h, err
	}
	if name, b, err = takeField(b, MaxName); err != nil {
		return h, err
	}
	if len(b) < 8 {
		return h, errHello
	}
	h.Incarnation, b = binary.BigEndian.Uint64(b), b[8:]
	if h.Card, b, err = takeField(b, maxCard); err != nil {
		return h, err
	}
	if len(b) != 0 {
		return h, errHello
	}
	h.Instance, h.Name = string(instance), filch.NodeName(name)
	if CheckName(h.Name) != nil {
		return h, errHello
	}
	return h, nil
}

func takeField(b []byte, limit int) (f, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, errHello
	}
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if n > limit || n > len(b) {
		return nil, nil, errHello
	}
	return b[:n:n], b[n:], nil
}

// The answer to a hello is a code, then a hello (when admitted) or an
// incarnation and a text.
func encodeAnswer(r *Refusal, h Hello) []byte {
	if r == nil {
		return append([]byte{byte(Admitted)}, encodeHello(h)...)
	}
	b := []byte{byte(r.Code)}
	b = binary.BigEndian.AppendUint64(b, r.Incarnation)
	t := r.Text
	if len(t) > maxText {
		t = t[:maxText]
	}
	return appendField(b, []byte(t))
}

func decodeAnswer(b []byte, ours uint16) (Hello, error) {
	if len(b) < 1 {
		return Hello{}, errHello
	}
	code, b := Code(b[0]), b[1:]
	if code == Admitted {
		h, err := decodeHello(b, ours)
		if err == nil && h.Version != ours {
			return h, versionRefusal(ours, h.Version)
		}
		return h, err
	}
	if len(b) < 8 {
		return Hello{}, errHello
	}
	r := &Refusal{Code: code, Incarnation: binary.BigEndian.Uint64(b)}
	t, _, err := takeField(b[8:], maxText)
	if err != nil {
		return Hello{}, err
	}
	r.Text = clean(t)
	return Hello{}, r
}

// clean makes a foreign text safe to print.
func clean(t []byte) string {
	out := make([]byte, 0, len(t))
	for _, c := range t {
		if c < ' ' || c > '~' {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}

func versionRefusal(dialer, dialed uint16) *Refusal {
	return &Refusal{
		Code: WrongVersion,
		Text: fmt.Sprintf("the launcher that dialed speaks wire version %d, the one that it dialed %d: use one build of filch on all nodes", dialer, dialed),
	}
}

// readBlock reads a length of 4 bytes and a body of this length. Memory grows with
// the bytes received, not with the length promised.
func readBlock(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if uint64(n) > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errOversized, n, limit)
	}
	return readBody(r, int(n))
}

var errOversized = errors.New("frame larger than its class allows")

// firstRead bounds the allocation before any of a frame's body has arrived.
const firstRead = 64 << 10

func readBody(r io.Reader, n int) ([]byte, error) {
	if n <= firstRead {
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	b := make([]byte, firstRead)
	for have := 0; ; {
		if _, err := io.ReadFull(r, b[have:]); err != nil {
			return nil, err
		}
		have = len(b)
		if have == n {
			return b, nil
		}
		grown := make([]byte, min(n, 4*have))
		copy(grown, b)
		b = grown
	}
}

func appendBlock(b, payload []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}
