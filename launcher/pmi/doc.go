// Package pmi is the wire-up of an MPI job: the server side of PMI-1 and PMI-2 for the
// ranks of a node, and the node's part in the fences of the whole job.
//
// The package is a protocol engine without a file descriptor. The keeper of a node owns
// an [Engine] and drives the engine from a single goroutine (or under a single lock):
// bytes written by a rank go in by [Engine.Feed], the end of a rank's connection by
// [Engine.Closed], frames of the keepers of other nodes by [Engine.Peer], and time by
// [Engine.Tick] when [Engine.Deadline] has come. The resulting actions come out in an
// [Out]. The engine never blocks, never fails, and trusts neither side: a rank is a
// user's process and may send anything; the worst effect is the end of its own job.
//
// A keeper that feeds at most [FeedBytes] at a time and reads no more from a rank before
// the answers were written bounds the size of an Out.
//
// PMI-1 is version 1.1 as MPICH speaks it (src/pmi/maint/pmi-1.1.txt there), PMI-2
// version 2.0 (pmi-2.0.txt); a rank chooses by its first line. Values are shared by
// fences: pairs put by a rank become visible everywhere when all ranks have entered the
// next barrier. Fences run over a tree of the job's nodes, parent (i-1)/[Width]: the
// key-value pairs are merged on the way up and the whole set comes down, so every get is
// answered from memory.
package pmi
