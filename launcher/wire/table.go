package wire

import (
	"fmt"
	"reflect"

	"github.com/filch-hpc/filch/launcher"
)

// Link is a set of links, each with one direction: a kind has the links on which its
// frames travel, and so the senders that may send the kind.
type Link uint16

// The links.
const (
	FromClient Link = 1 << iota // a client to its launcher
	toClient
	FromKeeper // a keeper to its launcher
	toKeeper
	FromRunner // a runner to its launcher
	toRunner
	FromNode // a launcher to the launcher of another node
	inRelay  // inside a relay frame, from node to node
)

const everyStream = FromClient | toClient | FromKeeper | toKeeper | FromRunner | toRunner

// kindRow describes one kind.
type kindRow struct {
	name  string
	limit int // of a body
	links Link
	body  body // zero: the body is no input of a Node and no event of a client
}

// body is the type of a kind's bodies.
type body struct {
	kind   reflect.Type
	decode func([]byte) (any, error)
}

// value is the body of a kind whose values travel by value.
func value[T any]() body {
	return body{reflect.TypeFor[T](), func(b []byte) (any, error) {
		var v T
		err := Unmarshal(b, &v)
		return v, err
	}}
}

// pointer is the body of a kind whose values travel by pointer.
func pointer[T any]() body {
	return body{reflect.TypeFor[*T](), func(b []byte) (any, error) {
		v := new(T)
		return v, Unmarshal(b, v)
	}}
}

// kinds is the table of all kinds, by number.
var kinds = [256]kindRow{
	KindHello:   {"hello", MaxHello, everyStream, body{}},
	KindRefusal: {"refusal", MaxHello, everyStream, body{}},

	KindSubmit:     {"submit", MaxFrame, FromClient, body{}},
	KindQuery:      {"query", MaxSmall, FromClient, body{}},
	KindSignal:     {"signal", MaxHello, FromClient, body{}},
	KindCancel:     {"cancel", MaxHello, FromClient, body{}},
	KindResize:     {"resize", MaxHello, FromClient | toKeeper | inRelay, body{}},
	KindReattach:   {"reattach", MaxHello, FromClient, body{}},
	KindOps:        {"ops", MaxAnswer, FromClient, body{}},
	KindTaskSubmit: {"task-submit", MaxSubmit, FromClient, body{}},
	KindTaskGrow:   {"task-grow", MaxFrame, FromClient, body{}},
	KindTaskFollow: {"task-follow", MaxSmall, FromClient, body{}},

	KindAnswer:       {"answer", MaxAnswer, toClient, body{}},
	KindAccepted:     {"accepted", MaxSmall, toClient, value[launcher.Accepted]()},
	KindRefused:      {"refused", MaxSmall, toClient, value[launcher.Refused]()},
	KindStillWaiting: {"still-waiting", MaxSmall, toClient, value[launcher.StillWaiting]()},
	KindGranted:      {"granted", MaxSmall, toClient, value[launcher.Granted]()},
	KindStarted:      {"started", MaxSmall, toClient, value[launcher.Started]()},
	KindRankEnds:     {"rank-ends", MaxSmall, toClient, value[launcher.RankEnds]()},
	KindEnding:       {"ending", MaxSmall, toClient, value[launcher.Ending]()},
	KindEnded:        {"ended", MaxSmall, toClient, value[launcher.Ended]()},
	KindWarn:         {"warn", MaxHello, toClient | FromKeeper | inRelay, body{}},
	KindResults:      {"results", MaxAnswer, toClient, body{}},
	KindTaskNews:     {"task-news", MaxSmall, toClient, value[launcher.TaskNews]()},

	KindStart: {"start", MaxFrame, toKeeper, body{}},
	KindDeed:  {"deed", MaxSmall, toKeeper, body{}},
	KindLease: {"lease", 0, toKeeper | toRunner, body{}},
	KindAdopt: {"adopt", 0, toKeeper, body{}},

	KindTaskOrder:  {"task-order", MaxFrame, toRunner, body{}},
	KindTaskStarts: {"task-starts", MaxFrame, toRunner, body{}},
	KindTaskStop:   {"task-stop", MaxSmall, toRunner, body{}},
	KindTaskForget: {"task-forget", MaxSmall, toRunner, body{}},
	KindTaskEnds:   {"task-ends", MaxSmall, FromRunner, body{}},
	KindTaskLook:   {"task-look", MaxSmall, toRunner, body{}},
	KindTaskSeen:   {"task-seen", MaxSmall, FromRunner, body{}},
	KindTaskStir:   {"task-stir", MaxHello, FromRunner, body{}},

	KindKeeperReady:  {"keeper-ready", MaxSmall, FromKeeper, value[launcher.KeeperReady]()},
	KindRanksStarted: {"ranks-started", MaxSmall, FromKeeper, value[launcher.RanksStarted]()},
	KindRanksWired:   {"ranks-wired", MaxSmall, FromKeeper, value[launcher.RanksWired]()},
	KindRanksEnded:   {"ranks-ended", MaxSmall, FromKeeper, value[launcher.RanksEnded]()},
	KindKeeperDone:   {"keeper-done", MaxSmall, FromKeeper, value[launcher.KeeperDone]()},
	KindAdopted:      {"adopted", MaxFrame, FromKeeper, value[launcher.Adopted]()},

	KindOutput:     {"output", MaxData, FromKeeper | toClient | inRelay, body{}},
	KindCredit:     {"credit", MaxHello, toKeeper | inRelay, body{}},
	KindResend:     {"resend", MaxHello, toKeeper | inRelay, body{}},
	KindStdin:      {"stdin", MaxData, FromClient | toKeeper | inRelay, body{}},
	KindStdinWant:  {"stdin-want", MaxHello, FromKeeper | toClient | inRelay, body{}},
	KindPeerFrame:  {"peer-frame", MaxFrame, FromKeeper | toKeeper | inRelay, body{}}, // a fence carries the whole key-value set of a job
	KindKinFrame:   {"kin-frame", MaxFrame, FromKeeper | toKeeper | inRelay, body{}},
	KindOutputEnd:  {"output-end", MaxHello, FromKeeper | inRelay, body{}},
	KindOutputSeen: {"output-seen", MaxHello, toKeeper | inRelay, body{}},

	KindRelay: {"relay", MaxFrame, FromNode, body{}},
	KindAsk:   {"ask", MaxSmall, FromNode, body{}},
	KindReply: {"reply", MaxAnswer, FromNode, body{}},
	KindStore: {"store", MaxSmall, FromNode, body{}},
	KindFetch: {"fetch", MaxData, FromNode, body{}},
	KindPart:  {"part", MaxSmall, FromNode, body{}},

	KindMessageAsk:         {"slot-ask", MaxSmall, FromNode, pointer[launcher.Ask]()},
	KindMessageGrant:       {"slot-grant", MaxSmall, FromNode, pointer[launcher.Grant]()},
	KindMessageRelease:     {"slot-release", MaxSmall, FromNode, pointer[launcher.Release]()},
	KindMessageDispatch:    {"dispatch", MaxFrame, FromNode, pointer[launcher.Dispatch]()}, // carries an order
	KindMessageProgress:    {"progress", MaxSmall, FromNode, pointer[launcher.Progress]()},
	KindMessageProgressAck: {"progress-ack", MaxSmall, FromNode, pointer[launcher.ProgressAck]()},
	KindMessageProceed:     {"proceed", MaxSmall, FromNode, pointer[launcher.Proceed]()},
	KindMessageHalt:        {"halt", MaxSmall, FromNode, pointer[launcher.Halt]()},
	KindMessageSignals:     {"signals", MaxSmall, FromNode, pointer[launcher.Signals]()},
	KindMessageSignalsAck:  {"signals-ack", MaxSmall, FromNode, pointer[launcher.SignalsAck]()},
	KindMessageRenew:       {"renew", MaxSmall, FromNode, pointer[launcher.Renew]()},
	KindMessageStepAsk:     {"step-ask", MaxSmall, FromNode, pointer[launcher.StepAsk]()},
	KindMessageStepGrant:   {"step-grant", MaxSmall, FromNode, pointer[launcher.StepGrant]()},
	KindMessageStepDone:    {"step-done", MaxSmall, FromNode, pointer[launcher.StepDone]()},
	KindMessageStepDoneAck: {"step-done-ack", MaxSmall, FromNode, pointer[launcher.StepDoneAck]()},
	KindMessageTakeOver:    {"take-over", MaxSmall, FromNode, pointer[launcher.TakeOver]()},
	KindMessageTaskWord:    {"task-word", MaxSmall, FromNode, pointer[launcher.TaskWord]()},
	KindMessageRanksAsk:    {"ranks-ask", MaxSmall, FromNode, pointer[launcher.RanksAsk]()},
	KindMessageRanksLeft:   {"ranks-left", MaxSmall, FromNode, pointer[launcher.RanksLeft]()},
}

// kindOf maps the type of a body to its kind.
var kindOf = func() map[reflect.Type]Kind {
	byType := map[reflect.Type]Kind{}
	for k := range kinds {
		if t := kinds[k].body.kind; t != nil {
			byType[t] = Kind(k)
		}
	}
	return byType
}()

// Limit returns the longest body that a frame of kind k may have; a negative limit
// means that the kind does not exist.
func (k Kind) Limit() int {
	if kinds[k].name == "" {
		return -1
	}
	return kinds[k].limit
}

// On reports whether frames of kind k travel on a link.
func (k Kind) On(l Link) bool { return kinds[k].links&l != 0 }

// IsMessage reports whether k is the kind of a message between Nodes.
func (k Kind) IsMessage() bool { return k.On(FromNode) && kinds[k].body.kind != nil }

func (k Kind) String() string {
	if s := kinds[k].name; s != "" {
		return s
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// encode returns the kind and the body of a value that travels on a link.
func encode(l Link, v any) (Kind, []byte, error) {
	k, ok := kindOf[reflect.TypeOf(v)]
	if !ok || !k.On(l) {
		return 0, nil, fmt.Errorf("cannot encode %T: its link has no such kind", v)
	}
	b, err := Marshal(v)
	return k, b, err
}

// decode is the inverse of encode.
func decode[T any](l Link, what string, k Kind, b []byte) (T, error) {
	var none T
	row := &kinds[k]
	if !k.On(l) || row.body.kind == nil {
		return none, fmt.Errorf("%s refused: kind %s", what, k)
	}
	v, err := row.body.decode(b)
	if err != nil {
		return none, err
	}
	return v.(T), nil
}

// EncodeMessage returns the kind and body of a message between Nodes.
func EncodeMessage(m launcher.Message) (Kind, []byte, error) { return encode(FromNode, m) }

// DecodeMessage is the inverse of [EncodeMessage].
func DecodeMessage(k Kind, b []byte) (launcher.Message, error) {
	return decode[launcher.Message](FromNode, "message", k, b)
}

// EncodeEvent returns the kind and body of an event for a client.
func EncodeEvent(e launcher.Event) (Kind, []byte, error) { return encode(toClient, e) }

// DecodeEvent is the inverse of [EncodeEvent].
func DecodeEvent(k Kind, b []byte) (launcher.Event, error) {
	return decode[launcher.Event](toClient, "event", k, b)
}

// DecodeKeeper decodes a keeper's event for the Node of its launcher.
func DecodeKeeper(k Kind, b []byte) (any, error) {
	return decode[any](FromKeeper, "keeper's frame", k, b)
}
