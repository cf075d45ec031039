// Package daemon is the loop around the brain of a node: it turns what comes
// over links and what timers say into inputs of one [launcher.Node], and the
// Node's Outbox into deeds.
//
// One goroutine, the loop, owns the Node. Every other goroutine reads one
// stream (a client, a keeper, the overlay) and posts inputs to it, over one
// bounded channel. The loop takes as many inputs as have come, acts on the
// Outbox in field order, and flushes every link that it wrote to once.
//
// The data plane does not pass the loop: output, stdin and fences go from link
// to link on the goroutine that read them, by a table of routes that the loop
// keeps ([routes]). Nothing on these paths waits for a reader that is slow:
// links queue up to the windows of the keepers, and places in streams are
// absolute, so that whatever is dropped is asked for again.
//
// What a Daemon starts, it ends: Close returns when all goroutines are gone,
// the keepers of running jobs excepted, which outlive a launcher for a while
// so that the next one can adopt them.
package daemon
