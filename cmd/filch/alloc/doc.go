// Package alloc reads the nodes of an allocation, from the environment of a batch
// job or from a list of hosts.
//
// Package alloc asks no batch system, except [Allocation.FindEnd] where the
// environment lacks the end of the allocation.
package alloc
