// Package overlay carries frames between the launchers of an instance.
//
// A [Network] is what a launcher's daemon sees: named peers, three classes of
// frames, bounded queues. A [Carrier] is a Network with the parts that the
// keeper of the member list, [Mesh], needs besides: dialing an address,
// probing a silent peer, cutting a dead one. [Host] is the real Carrier, over
// go-libp2p; package mem has one that lives in memory.
//
// The overlay knows nothing of jobs: payloads are opaque. Frames from one peer
// in one class arrive in the order in which they were sent. A frame that was
// accepted is delivered once unless the connection breaks, which between live
// nodes it does only after an outage of more than WriteTimeout or when the
// other side was declared dead; then it is lost, and nobody is told. Whoever
// must know waits for an answer.
package overlay
