package wire

import (
	"fmt"

	"github.com/filch-hpc/filch/launcher"
)

// EncodeEvent returns an event's kind and body.
func EncodeEvent(e launcher.Event) (Kind, []byte, error) {
	k := eventKind(e)
	if k == 0 {
		return 0, nil, fmt.Errorf("cannot encode %T: not a known event", e)
	}
	b, err := Marshal(e)
	return k, b, err
}

func eventKind(e launcher.Event) Kind {
	switch e.(type) {
	case launcher.Accepted:
		return KindAccepted
	case launcher.Refused:
		return KindRefused
	case launcher.StillWaiting:
		return KindStillWaiting
	case launcher.Started:
		return KindStarted
	case launcher.Ending:
		return KindEnding
	case launcher.Ended:
		return KindEnded
	case launcher.TaskNews:
		return KindTaskNews
	}
	return 0
}

// DecodeEvent is the inverse of [EncodeEvent].
func DecodeEvent(k Kind, b []byte) (launcher.Event, error) {
	switch k {
	case KindAccepted:
		return decode[launcher.Accepted](b)
	case KindRefused:
		return decode[launcher.Refused](b)
	case KindStillWaiting:
		return decode[launcher.StillWaiting](b)
	case KindStarted:
		return decode[launcher.Started](b)
	case KindEnding:
		return decode[launcher.Ending](b)
	case KindEnded:
		return decode[launcher.Ended](b)
	case KindTaskNews:
		return decode[launcher.TaskNews](b)
	}
	return nil, fmt.Errorf("event refused: kind %s", k)
}

// DecodeKeeper decodes a keeper's event for the brain of its launcher.
func DecodeKeeper(k Kind, b []byte) (any, error) {
	switch k {
	case KindKeeperReady:
		return decode[launcher.KeeperReady](b)
	case KindRanksStarted:
		return decode[launcher.RanksStarted](b)
	case KindRanksEnded:
		return decode[launcher.RanksEnded](b)
	case KindKeeperDone:
		return decode[launcher.KeeperDone](b)
	case KindAdopted:
		return decode[launcher.Adopted](b)
	}
	return nil, fmt.Errorf("keeper's frame refused: kind %s", k)
}

// decode returns a T by value, as the brain takes its inputs.
func decode[T any](b []byte) (T, error) {
	var v T
	err := Unmarshal(b, &v)
	return v, err
}
