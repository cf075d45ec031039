// Package alloc reads the nodes that somebody gave us: what a batch system says
// in the environment of a job, or a list of hosts.
//
// It asks no batch system anything, except [Allocation.FindEnd] where the
// environment does not say when the allocation ends.
package alloc
