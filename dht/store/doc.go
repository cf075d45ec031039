// Package store keeps the records of an instance on several of its nodes.
//
// [Store] is a state machine that performs no I/O: each input carries now, the monotonic
// time since the launcher began. The store asks to be called again at [Store.Deadline],
// and appends the actions for the shell to an [Out]. Package members says which nodes
// live.
//
// No node decides alone which nodes hold a record. The roster decides: a small value on
// which one, three or five acceptors agree (CASPaxos). Nearness in the key space only
// recruits. The first node of a shard's config is the shard's primary. The primary
// carries out operations, one at a time on each key, and answers when all other replicas
// of the config have the result. Replicas refuse messages of an epoch that is over. A
// config shrinks at once, and grows only by a learner that has everything.
package store
