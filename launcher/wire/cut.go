package wire

import (
	"encoding/binary"
	"fmt"
)

// AppendFrame appends a frame to b in the form of a stream, for a writer with a queue
// of its own.
func AppendFrame(b []byte, k Kind, req uint32, parts ...[]byte) ([]byte, error) {
	return appendFrame(b, k, req, parts)
}

// AppendValue appends a frame whose body is the encoding of v.
func AppendValue(b []byte, k Kind, req uint32, v any) ([]byte, error) {
	at := len(b)
	b, err := appendFrame(b, k, req, nil)
	if err == nil {
		b, err = appendValue(b, v)
	}
	if err == nil {
		err = checkLen(k, len(b)-at-headerStream)
	}
	if err != nil {
		return b[:at], err
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b, nil
}

// Cut takes the first frame off b, the beginning of a stream, for a reader with a
// buffer of its own; n is the frame's length in b, 0 while the frame is incomplete.
// Body is part of b. Cut checks the header as soon as the header is complete.
func Cut(b []byte) (f Frame, n int, err error) {
	if len(b) < headerStream {
		return f, 0, nil
	}
	length := int64(binary.BigEndian.Uint32(b))
	f = Frame{Kind: Kind(b[4]), Req: binary.BigEndian.Uint32(b[5:])}
	if length < headerFrame || length > headerFrame+MaxSubmit {
		return f, 0, fmt.Errorf("frame refused: length %d", length)
	}
	if err := checkLen(f.Kind, int(length-headerFrame)); err != nil {
		return f, 0, err
	}
	total := int(length) + 4
	if len(b) < total {
		return f, 0, nil
	}
	f.Body = b[headerStream:total]
	return f, total, nil
}
