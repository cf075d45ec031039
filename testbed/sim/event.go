package sim

// event is something that happens to a host at a moment. Body is a
// launcher.Message, a keeper's word, or what its kind says.
type event struct {
	kind eventKind
	from int32
	to   int32
	body any
}

type eventKind uint8

const (
	evMessage eventKind = iota // body from another host
	evServe                    // the host's cpu is free for its next input
	evWake                     // a Node's deadline
	evKeeper                   // body from a keeper of the host
	evChild                    // something happens inside a keeper: body is a *step
	evCall                     // body is a call of another method of the Node
	evPeer                     // the failure detector tells the host of another
	evSubmit                   // body is a *job
	evDo                       // body is a func(): faults and the detector's own clockwork
)
