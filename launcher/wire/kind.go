package wire

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

	KindTaskSubmit Kind = 23 // submit.Job
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
	KindGranted      Kind = 42 // launcher.Granted
	KindRankEnds     Kind = 43 // launcher.RankEnds

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
	KindTaskLook   Kind = 62 // launcher.TaskLook, answered by KindTaskSeen

	// Keeper to launcher.
	KindKeeperReady  Kind = 56 // launcher.KeeperReady, and so on
	KindRanksStarted Kind = 57
	KindRanksEnded   Kind = 58
	KindKeeperDone   Kind = 59
	KindAdopted      Kind = 60
	KindRanksWired   Kind = 65

	// Runner to launcher.
	KindTaskEnds Kind = 61 // []launcher.TaskEnd
	KindTaskSeen Kind = 63 // launcher.TaskSeen
	KindTaskStir Kind = 64 // launcher.TaskSpan: there is new output

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
	KindKinFrame   Kind = 81

	// Between launchers, besides the messages of Nodes.
	KindAsk   Kind = 88 // Query for another node, answered by KindReply with the same Req
	KindReply Kind = 89 // Answer
	KindStore Kind = 90 // a message between stores, as message.Encode lays it out
	KindFetch Kind = 91 // Fetch, answered by KindPart with the same Req
	KindPart  Kind = 92 // Parts

	// Messages between Nodes, as launcher/messages.go describes them.
	KindMessageAsk         Kind = 96
	KindMessageGrant       Kind = 97
	KindMessageRelease     Kind = 98
	KindMessageDispatch    Kind = 99
	KindMessageProgress    Kind = 100
	KindMessageProgressAck Kind = 101
	KindMessageProceed     Kind = 102
	KindMessageHalt        Kind = 103
	KindMessageSignals     Kind = 104
	KindMessageSignalsAck  Kind = 105
	KindMessageRenew       Kind = 106
	KindMessageStepAsk     Kind = 107
	KindMessageStepGrant   Kind = 108
	KindMessageStepDone    Kind = 109
	KindMessageStepDoneAck Kind = 110
	KindMessageTakeOver    Kind = 111
	KindMessageTaskWord    Kind = 112
	KindMessageRanksAsk    Kind = 113
	KindMessageRanksLeft   Kind = 114
)

// Limits of a frame's body.
const (
	MaxSubmit    = 64 << 20 // a submission of tasks, with long texts
	MaxFrame     = 16 << 20 // other kinds that carry an order: launches and submissions
	MaxSmall     = 1 << 20  // every other kind
	MaxData      = 256 << 10
	MaxHello     = 4 << 10
	MaxAnswer    = 8 << 20  // a listing of every job
	MaxChunk     = 64 << 10 // of output or stdin in one frame
	headerStream = 9
	headerFrame  = 5
)
