// Package overlay carries frames between the launchers of an instance.
//
// A [Network] is the daemon's view of the other launchers: named peers, three
// classes of frames, bounded queues. A [Carrier] is a Network with more methods for
// the keeper of the member list, [Mesh]: dialing an address, probing a silent peer,
// cutting a dead peer. [Host] is the real Carrier, over go-libp2p; package mem has
// a Carrier in memory.
//
// The overlay knows nothing of jobs: payloads are opaque. Frames from one peer in
// one class arrive in the order of sending. An accepted frame is delivered once
// unless the connection breaks. Between live nodes a connection breaks only after
// an outage of more than WriteTimeout, or after the other side was declared dead.
// Then the frame is lost, and the overlay reports the loss to nobody. A sender which
// must know waits for an answer.
package overlay
