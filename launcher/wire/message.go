package wire

import (
	"fmt"

	"github.com/filch-hpc/filch/launcher"
)

// The messages between brains, as launcher/messages.go describes them.
const (
	KindMessageAsk         Kind = FirstMessage + 0
	KindMessageGrant       Kind = FirstMessage + 1
	KindMessageRelease     Kind = FirstMessage + 2
	KindMessageDispatch    Kind = FirstMessage + 3
	KindMessageProgress    Kind = FirstMessage + 4
	KindMessageProgressAck Kind = FirstMessage + 5
	KindMessageProceed     Kind = FirstMessage + 6
	KindMessageHalt        Kind = FirstMessage + 7
	KindMessageSignals     Kind = FirstMessage + 8
	KindMessageSignalsAck  Kind = FirstMessage + 9
	KindMessageRenew       Kind = FirstMessage + 10
	KindMessageStepAsk     Kind = FirstMessage + 11
	KindMessageStepGrant   Kind = FirstMessage + 12
	KindMessageStepDone    Kind = FirstMessage + 13
	KindMessageStepDoneAck Kind = FirstMessage + 14
	KindMessageTakeOver    Kind = FirstMessage + 15
	KindMessageTaskWord    Kind = FirstMessage + 16
)

// EncodeMessage returns the kind and body of a message between brains.
func EncodeMessage(m launcher.Message) (Kind, []byte, error) {
	k := messageKind(m)
	if k == 0 {
		return 0, nil, fmt.Errorf("cannot encode %T: not a known message", m)
	}
	b, err := Marshal(m)
	return k, b, err
}

func messageKind(m launcher.Message) Kind {
	switch m.(type) {
	case *launcher.Ask:
		return KindMessageAsk
	case *launcher.Grant:
		return KindMessageGrant
	case *launcher.Release:
		return KindMessageRelease
	case *launcher.Dispatch:
		return KindMessageDispatch
	case *launcher.Progress:
		return KindMessageProgress
	case *launcher.ProgressAck:
		return KindMessageProgressAck
	case *launcher.Proceed:
		return KindMessageProceed
	case *launcher.Halt:
		return KindMessageHalt
	case *launcher.Signals:
		return KindMessageSignals
	case *launcher.SignalsAck:
		return KindMessageSignalsAck
	case *launcher.Renew:
		return KindMessageRenew
	case *launcher.StepAsk:
		return KindMessageStepAsk
	case *launcher.StepGrant:
		return KindMessageStepGrant
	case *launcher.StepDone:
		return KindMessageStepDone
	case *launcher.StepDoneAck:
		return KindMessageStepDoneAck
	case *launcher.TakeOver:
		return KindMessageTakeOver
	case *launcher.TaskWord:
		return KindMessageTaskWord
	}
	return 0
}

// DecodeMessage is the inverse of [EncodeMessage].
func DecodeMessage(k Kind, b []byte) (launcher.Message, error) {
	m := newMessage(k)
	if m == nil {
		return nil, fmt.Errorf("message refused: kind %s", k)
	}
	return m, Unmarshal(b, m)
}

func newMessage(k Kind) launcher.Message {
	switch k {
	case KindMessageAsk:
		return new(launcher.Ask)
	case KindMessageGrant:
		return new(launcher.Grant)
	case KindMessageRelease:
		return new(launcher.Release)
	case KindMessageDispatch:
		return new(launcher.Dispatch)
	case KindMessageProgress:
		return new(launcher.Progress)
	case KindMessageProgressAck:
		return new(launcher.ProgressAck)
	case KindMessageProceed:
		return new(launcher.Proceed)
	case KindMessageHalt:
		return new(launcher.Halt)
	case KindMessageSignals:
		return new(launcher.Signals)
	case KindMessageSignalsAck:
		return new(launcher.SignalsAck)
	case KindMessageRenew:
		return new(launcher.Renew)
	case KindMessageStepAsk:
		return new(launcher.StepAsk)
	case KindMessageStepGrant:
		return new(launcher.StepGrant)
	case KindMessageStepDone:
		return new(launcher.StepDone)
	case KindMessageStepDoneAck:
		return new(launcher.StepDoneAck)
	case KindMessageTakeOver:
		return new(launcher.TakeOver)
	case KindMessageTaskWord:
		return new(launcher.TaskWord)
	}
	return nil
}

// messageLimit is the limit of the kinds of the brains' messages. A dispatch carries an
// order, the rest is small.
func messageLimit(k Kind) int {
	switch {
	case k == KindMessageDispatch:
		return MaxFrame
	case k >= FirstMessage && k <= KindMessageTaskWord:
		return MaxSmall
	}
	return -1
}
