// Package launcher is the brain of one node: it routes inputs to the cores
// (slots, stealer, dht, mtc) and says what is to be done in an [Outbox].
//
// It touches nothing: no clock, socket, goroutine, file, global random source,
// and no map order that reaches an output. Inputs are methods stamped with now,
// monotonic since the launcher began; timers are one question,
// [Node.Deadline]; what is to be done is data, acted on in field order by
// whoever drives the Node: launcher/daemon in real life, testbed/sim/instance in
// virtual time. Two nodes' clocks are never compared: leases travel as
// durations.
package launcher
