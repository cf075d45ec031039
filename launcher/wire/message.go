package wire

import (
	"fmt"

	"github.com/filch-hpc/filch/launcher"
)

// EncodeMessage gives the kind and body of a message between brains.
func EncodeMessage(m launcher.Message) (Kind, []byte, error) {
	return 0, nil, fmt.Errorf("cannot encode %T: not a known message", m)
}

// DecodeMessage is the inverse of [EncodeMessage].
func DecodeMessage(k Kind, _ []byte) (launcher.Message, error) {
	return nil, fmt.Errorf("message refused: kind %s", k)
}

// messageLimit is the limit of the kinds of the brains' messages.
func messageLimit(Kind) int { return -1 }
