// Package instance runs whole nodes in virtual time, under faults that a seed
// decides: launcher.Node with its store, as the daemon makes it.
//
// A [World] owns the hosts with their keepers and disks. It drives the very Node
// that the daemon drives, through the same methods and the same Outbox, beside the
// very members.List that tells that Node of the others; the world stands in for the
// mesh that carries both. It holds no policy of its own: whatever is decided, a Node
// or a list decided it. Where nothing may fail all Nodes share one list, which knows
// everybody. Events are in one
// total order (time, then the order in which they were made), every random
// number comes from the seed, so that a seed names a run and its trace hash.
//
// In an [ElasticWorld] hosts come and go with the allocations of a pool: every node is a
// holder with the decider that ships, and a simulated batch system starts, refuses, holds,
// loses and ends the allocations.
//
// The checkers stand apart from the system: they believe what the simulated
// keepers did (which cores were taken when, which ranks ran and how they
// ended), never what a Node says of itself.
package instance
