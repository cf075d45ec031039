// Package node is the brain of one launcher: a [Node] routes inputs to the cores (slots,
// stealer, dht/store, mtc) and fills a [launcher.Outbox] with the work to be done.
//
// A [Node] owns four parts: [origin.Origin], [ranks.Ranks], [tasks.Tasks] and
// [records.Records]. A method of a part that takes the time and an Outbox is an input of
// the Node. A method that takes a [local.Turn], the input being handled, is for the Node
// and the other parts.
//
// The packages use no clock, socket, goroutine, file or global random source, and no map
// order reaches an output. Inputs are methods stamped with now, monotonic since the
// launcher began. Timers are a single question, [Node.Deadline]. An Outbox is data: the
// driver of the Node acts on the fields in their order. The driver is launcher/daemon in
// real life, and testbed/sim/instance in virtual time. The clocks of two nodes are never
// compared: leases travel as durations.
package node
