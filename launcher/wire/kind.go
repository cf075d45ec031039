package wire

import "fmt"

// Kind is the type of a frame's body. The numbers are the protocol: append only within
// a version.
type Kind uint8

// The kinds, by link.
const (
	KindHello   Kind = 1 // first on every stream, both ways; layout fixed forever
	KindRefusal Kind = 2 // last on a stream: text, NUL, hint; layout fixed forever

	// Client to launcher.
	KindSubmit   Kind = 16 // launcher.Request
	KindQuery    Kind = 17 // Query, answered by KindAnswer with the same Req
	KindSignal   Kind = 18 // Signal
	KindCancel   Kind = 19 // Signal
	KindResize   Kind = 20 // launcher.Window
	KindReattach Kind = 21 // Reattach
	KindOps      Kind = 22 // Ops, answered by KindResults with the same Req

	KindTaskSubmit Kind = 23 // launcher.TaskSubmission
	KindTaskGrow   Kind = 24 // TaskGrow
	KindTaskFollow Kind = 25 // TaskFollow

	// Launcher to client.
	KindAnswer       Kind = 32 // Answer
	KindAccepted     Kind = 33 // launcher.Accepted, and so on
	KindRefused      Kind = 34
	KindStillWaiting Kind = 35
	KindStarted      Kind = 36
	KindEnding       Kind = 37
	KindEnded        Kind = 38
	KindWarn         Kind = 39 // Warn; also from a keeper
	KindResults      Kind = 40 // Results
	KindTaskNews     Kind = 41 // launcher.TaskNews

	// Launcher to keeper.
	KindStart Kind = 48 // launcher.Start
	KindDeed  Kind = 49 // launcher.Deed
	KindLease Kind = 50 // no body: the launcher lives
	KindAdopt Kind = 51 // no body: answered by KindAdopted

	// Launcher to runner, besides KindHello and KindLease.
	KindTaskOrder  Kind = 52 // launcher.TaskOrder
	KindTaskStarts Kind = 53 // []launcher.TaskStart
	KindTaskStop   Kind = 54 // launcher.TaskStop
	KindTaskForget Kind = 55 // launcher.TaskForget

	// Keeper to launcher.
	KindKeeperReady  Kind = 56 // launcher.KeeperReady, and so on
	KindRanksStarted Kind = 57
	KindRanksEnded   Kind = 58
	KindKeeperDone   Kind = 59
	KindAdopted      Kind = 60

	// Runner to launcher.
	KindTaskEnds Kind = 61 // []launcher.TaskEnd

	// The data plane, with fixed headers; see data.go.
	KindOutput     Kind = 72
	KindCredit     Kind = 73
	KindResend     Kind = 74
	KindStdin      Kind = 75
	KindStdinWant  Kind = 76
	KindPeerFrame  Kind = 77
	KindRelay      Kind = 78 // any of the above from node to node
	KindOutputEnd  Kind = 79
	KindOutputSeen Kind = 80

	// Between launchers, beside the brains' messages.
	KindAsk   Kind = 88 // Query for another node, answered by KindReply with the same Req
	KindReply Kind = 89 // Answer
	KindStore Kind = 90 // a message between stores, as message.Encode lays it out
	KindFetch Kind = 91 // Fetch, answered by KindPart with the same Req
	KindPart  Kind = 92 // Part

	// FirstMessage and up are the messages of the brains; see message.go.
	FirstMessage Kind = 96
)

// Limits of a frame's body.
const (
	MaxFrame     = 16 << 20 // kinds that carry an order: launches and submissions
	MaxSmall     = 1 << 20  // every other kind
	MaxData      = 256 << 10
	MaxHello     = 4 << 10
	MaxAnswer    = 8 << 20  // a listing of every job
	MaxChunk     = 64 << 10 // of output or stdin in one frame
	headerStream = 9
	headerFrame  = 5
)

// Limit returns the longest body that a frame of kind k may have; a negative limit
// means that the kind does not exist.
func (k Kind) Limit() int {
	switch k {
	case KindHello, KindRefusal, KindWarn:
		return MaxHello
	case KindSubmit, KindStart, KindAdopted, KindTaskOrder, KindTaskStarts, KindTaskSubmit, KindTaskGrow:
		return MaxFrame
	case KindQuery, KindAsk, KindStore:
		return MaxSmall
	case KindAnswer, KindReply, KindOps, KindResults:
		return MaxAnswer
	case KindLease, KindAdopt:
		return 0
	case KindOutput, KindStdin:
		return MaxData
	case KindPeerFrame, KindRelay:
		return MaxFrame // fences carry the whole key-value set of a job
	case KindFetch, KindCredit, KindResend, KindStdinWant, KindOutputEnd, KindOutputSeen,
		KindResize, KindSignal, KindCancel, KindReattach:
		return MaxHello
	case KindAccepted, KindRefused, KindStillWaiting, KindStarted, KindEnding, KindEnded,
		KindKeeperReady, KindRanksStarted, KindRanksEnded, KindKeeperDone, KindDeed,
		KindTaskEnds, KindTaskStop, KindTaskForget, KindTaskFollow, KindTaskNews, KindPart:
		return MaxSmall
	}
	return messageLimit(k)
}

var kindNames = map[Kind]string{
	KindHello: "hello", KindRefusal: "refusal",
	KindSubmit: "submit", KindQuery: "query", KindSignal: "signal", KindCancel: "cancel",
	KindResize: "resize", KindReattach: "reattach",
	KindAnswer: "answer", KindAccepted: "accepted", KindRefused: "refused",
	KindStillWaiting: "still-waiting", KindStarted: "started", KindEnding: "ending", KindEnded: "ended",
	KindWarn: "warn", KindStart: "start", KindDeed: "deed", KindLease: "lease", KindAdopt: "adopt",
	KindKeeperReady: "keeper-ready", KindRanksStarted: "ranks-started", KindRanksEnded: "ranks-ended",
	KindKeeperDone: "keeper-done", KindAdopted: "adopted",
	KindTaskOrder: "task-order", KindTaskStarts: "task-starts", KindTaskStop: "task-stop",
	KindTaskSubmit: "task-submit", KindTaskGrow: "task-grow", KindTaskFollow: "task-follow", KindTaskNews: "task-news",
	KindTaskForget: "task-forget", KindTaskEnds: "task-ends",
	KindOutput: "output", KindCredit: "credit", KindResend: "resend", KindStdin: "stdin",
	KindStdinWant: "stdin-want", KindPeerFrame: "peer-frame", KindRelay: "relay",
	KindOutputEnd: "output-end", KindOutputSeen: "output-seen", KindAsk: "ask", KindReply: "reply",
	KindStore: "store", KindFetch: "fetch", KindPart: "part", KindOps: "ops", KindResults: "results",
}

func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}
