// Package daemon is the loop around the brain of a node: the loop turns frames from
// links and expired timers into inputs of one [launcher.Node], and carries out the
// Node's Outbox.
//
// One goroutine, the loop, owns the Node. Every other goroutine reads one stream (a
// client, a keeper, the overlay) and posts inputs to the loop, over one bounded
// channel. The loop takes all queued inputs, acts on the Outbox in field order, and
// then flushes each link with queued frames once.
//
// The data plane does not pass the loop: the goroutine that reads output, stdin or
// fences from a link writes the frames to the next link, by a table of routes that the
// loop maintains ([routes]). No goroutine on these paths waits for a slow reader: links
// queue up to the windows of the keepers, and offsets in streams are absolute, so that
// the sender asks again for dropped bytes.
//
// A Daemon ends everything that the Daemon has started: Close returns when all
// goroutines are gone. Keepers of running jobs are the exception: the keepers outlive a
// launcher for a while so that the next launcher can adopt the keepers.
package daemon
