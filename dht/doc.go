// Package dht knows who belongs to an instance and, on top of that, where its
// records live.
//
// [Members] is the list of all nodes of an instance as one of them sees it: a
// state machine that touches nothing. Its inputs are stamped with now,
// monotonic since the launcher began; it asks to be called again by
// [Members.Deadline]; what is to be done is appended to a [MembersOut], which
// the caller acts on: package overlay's Mesh in real life, a simulated network
// in tests. Messages may be lost, repeated, delayed and reordered.
package dht
