package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/filch-hpc/filch/launcher"
)

// extraMax bounds the bytes of a [launcher.OrderExtra].
const extraMax = 64 << 10

var errBody = errors.New("the body is malformed")

// EncodeOrder is the body of a job with an order; extra nil is none. An extra is JSON, so
// that later builds read the bodies of earlier builds.
func EncodeOrder(o *launcher.TaskOrder, extra *launcher.OrderExtra) ([]byte, error) {
	body := []byte{launcher.BodyOrder}
	if extra != nil {
		text, err := json.Marshal(extra)
		if err != nil {
			return nil, err
		}
		body = append(binary.AppendUvarint([]byte{launcher.BodyExtra}, uint64(len(text))), text...)
	}
	return appendValue(body, o)
}

// DecodeOrder reads the body of a job with an order; extra is never nil. A body without
// an order is an error.
func DecodeOrder(body []byte) (*launcher.TaskOrder, *launcher.OrderExtra, error) {
	o, extra := &launcher.TaskOrder{}, &launcher.OrderExtra{}
	if len(body) == 0 || body[0] != launcher.BodyOrder && body[0] != launcher.BodyExtra {
		return nil, nil, errors.New("the body is no order")
	}
	kind, rest := body[0], body[1:]
	if kind == launcher.BodyExtra {
		n, w := binary.Uvarint(rest)
		if w <= 0 || n > extraMax || n > uint64(len(rest)-w) {
			return nil, nil, errBody
		}
		if err := json.Unmarshal(rest[w:w+int(n)], extra); err != nil {
			return nil, nil, errBody
		}
		rest = rest[w+int(n):]
	}
	return o, extra, Unmarshal(rest, o)
}
