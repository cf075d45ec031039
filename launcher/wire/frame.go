package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Frame is one message of a link. Body belongs to the goroutine that read the frame.
type Frame struct {
	Kind Kind
	Req  uint32
	Body []byte
}

// Payload encodes a frame for a link that keeps the borders of messages.
func Payload(k Kind, req uint32, parts ...[]byte) ([]byte, error) {
	return appendPayload(nil, k, req, parts...)
}

// appendPayload is Payload, appending to b.
func appendPayload(b []byte, k Kind, req uint32, parts ...[]byte) ([]byte, error) {
	n, err := bodyLen(k, parts)
	if err != nil {
		return b, err
	}
	b = slices.Grow(b, headerFrame+n)
	b = append(b, byte(k))
	b = binary.BigEndian.AppendUint32(b, req)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b, nil
}

// payloads are the buffers of [SendPayload].
var payloads = sync.Pool{New: func() any { return new([]byte) }}

// SendPayload encodes a frame as [Payload] does, into a spare buffer, and calls send, which
// keeps no part of the frame.
func SendPayload(send func([]byte) error, k Kind, req uint32, parts ...[]byte) error {
	b := payloads.Get().(*[]byte)
	p, err := appendPayload((*b)[:0], k, req, parts...)
	if err == nil {
		err = send(p)
	}
	if *b = p; cap(p) <= maxPooled {
		payloads.Put(b)
	}
	return err
}

// ParsePayload is the inverse of [Payload]; Body is part of b.
func ParsePayload(b []byte) (Frame, error) {
	if len(b) < headerFrame {
		return Frame{}, fmt.Errorf("frame refused: %d bytes, a header has %d", len(b), headerFrame)
	}
	f := Frame{Kind: Kind(b[0]), Req: binary.BigEndian.Uint32(b[1:]), Body: b[headerFrame:]}
	return f, checkLen(f.Kind, len(f.Body))
}

// checkLen refuses an unknown kind and a body over the limit of its kind.
func checkLen(k Kind, n int) error {
	limit := k.Limit()
	if limit < 0 {
		return fmt.Errorf("frame refused: unknown kind %d", uint8(k))
	}
	if n > limit {
		return fmt.Errorf("frame refused: %s of %d bytes, the limit is %d", k, n, limit)
	}
	return nil
}

func bodyLen(k Kind, parts [][]byte) (int, error) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	return n, checkLen(k, n)
}

// appendFrame appends a frame in the form of a stream.
func appendFrame(b []byte, k Kind, req uint32, parts [][]byte) ([]byte, error) {
	n, err := bodyLen(k, parts)
	if err != nil {
		return b, err
	}
	b = binary.BigEndian.AppendUint32(b, uint32(headerFrame+n))
	b = append(b, byte(k))
	b = binary.BigEndian.AppendUint32(b, req)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b, nil
}

// eagerBody is the number of bytes allocated for a body on the word of the header
// alone: a piece of output with its header. More is allocated as bytes arrive.
const eagerBody = MaxChunk + 4<<10

// readFrame reads one frame off a stream, into buf if the frame fits. readFrame checks
// the header before reading any of the body.
func readFrame(r io.Reader, head *[headerStream]byte, buf []byte) (Frame, error) {
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	length := binary.BigEndian.Uint32(head[:])
	f := Frame{Kind: Kind(head[4]), Req: binary.BigEndian.Uint32(head[5:])}
	if length < headerFrame {
		return f, fmt.Errorf("frame refused: length %d, a header has %d", length, headerFrame)
	}
	n := int64(length) - headerFrame
	if n > MaxSubmit {
		return f, fmt.Errorf("frame refused: %d bytes, the limit is %d", n, MaxSubmit)
	}
	if err := checkLen(f.Kind, int(n)); err != nil {
		return f, err
	}
	if n == 0 {
		return f, nil
	}
	if int(n) <= len(buf) {
		f.Body = buf[:n]
	} else {
		f.Body = make([]byte, min(int(n), eagerBody))
	}
	got := 0
	for {
		if _, err := io.ReadFull(r, f.Body[got:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return Frame{}, err
		}
		if got = len(f.Body); got == int(n) {
			return f, nil
		}
		more := make([]byte, min(int(n), 4*got))
		copy(more, f.Body)
		f.Body = more
	}
}
