// Package daemon is the loop around the decisions of a node: the loop turns frames from
// links and expired timers into inputs of one [node.Node], and carries out the
// Node's Outbox.
//
// One goroutine, the loop, owns the Node. Every other goroutine reads one stream (a
// client, a keeper, the overlay) and posts inputs to the loop, over one bounded
// channel. The loop takes all queued inputs, acts on the Outbox in field order, and
// then flushes each link with queued frames once.
//
// The parts of a daemon are packages of their own: package inputs has the way to the
// loop, package dataplane moves output, stdin and fences, package staging brings files,
// package peers knows the other nodes, package query answers queries, package
// children starts keepers and runners.
//
// A Daemon ends everything that the Daemon has started: Close returns when all
// goroutines are gone. Keepers of running jobs are the exception: the keepers outlive a
// launcher for a while so that the next launcher can adopt the keepers.
package daemon
