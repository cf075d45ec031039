// Package sim runs launcher.Node by the thousand in virtual time, under faults
// that a seed decides.
//
// A [World] owns the clock, the network, the hosts with their keepers, and the
// failure detector that stands in for dht.Members. It drives the very Node that
// the daemon drives, through the same methods and the same Outbox, and holds no
// policy of its own: whatever is decided, a Node decided it. Events are in one
// total order (time, then the order in which they were made), every random
// number comes from the seed, so that a seed names a run and its trace hash.
//
// The checkers stand apart from the system: they believe what the simulated
// keepers did (which cores were taken when, which ranks ran and how they
// ended), never what a Node says of itself.
package sim
