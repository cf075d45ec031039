// Package dht knows who belongs to an instance and, on top of that, where its
// records live.
//
// [Members] is the list of all nodes of an instance as one of them sees it: a
// state machine that touches nothing. Its inputs are stamped with now,
// monotonic since the launcher began; it asks to be called again by
// [Members.Deadline]; what is to be done is appended to a [MembersOut], which
// the caller acts on: package overlay's Mesh in real life, a simulated network
// in tests. Messages may be lost, repeated, delayed and reordered.
//
// Each node tells three others that it lives, [BeatEvery], whatever the number
// of members. One that is silent for [SuspectAfter] is suspected, and dead
// after [DeadAfter] when a fresh connection to it failed and another member
// finds it silent too. Time in which the judge itself did not run is not held
// against the others. News go along fingers of the ring of hashed names and
// reach n nodes in about log2(n) steps; sums of the lists travel with the beats,
// so that what was lost is found.
//
// One whose host refuses connections, and closed those that were open, is [Gone]
// at once when another member finds so too. It may be wronged, and refutes it then.
//
// An incarnation that was declared dead is over: the node hears of it as soon
// as it speaks to anybody, tells its launcher by [SelfDead], and comes back by
// [Members.Rejoin] with a new one. When a network that was cut in two is whole
// again, each side has declared the other dead; then the smaller side, of equal
// ones that without the least name, starts anew and what it declared is
// forgotten, so that one node with a bad link does not take the others down.
//
// Two members have no witness: a failed redial alone decides there. A node that
// finds no witness among more waits for [AloneAfter], so that the others decide
// first in case it is the one that is cut off.
//
// [Store] keeps the records, in the same manner: a state machine with [StoreOut]
// for what is to be done. Which nodes hold a record is no opinion of each node
// but one small value, the roster, on which one, three or five seats agree
// (CASPaxos); nearness in the key space only recruits. The first node of a
// shard's config is its primary: it carries operations out, one at a time on
// each key, and answers when all others of the config have the result; they
// hear nobody of an epoch that is over. A config shrinks at once and grows only
// by a learner that has everything.
package dht
