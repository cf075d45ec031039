// Package roster is the value on which the nodes of an instance agree: who is a member,
// and which nodes hold which shard.
//
// A [Roster] is immutable once chosen. [Next] computes the following roster from one
// node's [View] of the instance: Next adds members and drops dead members, shrinks and
// grows the configs of shards, balances the load, and moves the register to other
// acceptors. Package store runs the agreement of the acceptors (CASPaxos), and spreads
// the result as a [Delta]. This package performs no I/O and keeps no state.
//
// [Roster.Follows] checks two rules between a roster and the next: each epoch of a shard
// has one config (I1), and the primary of an epoch was a replica in the epoch before
// (I2).
package roster
