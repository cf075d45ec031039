// Package queue is the queues of tasks. [Ready] is the queue of a job on a node. The rest
// is the queue on a file system that outlives the nodes: a [Mirror] turns the records
// homed at a node into lines of that node's own file; [Recovered] reads the lines of all
// files back and rebuilds the state of each job.
//
// A line belongs to a single record, holds the news of the record, and has a checksum, so
// that a reader passes over a torn or damaged line and reads the next line. Lines may be
// read in any order, twice, and from several writers. The package opens no file: the
// package appends to bytes and reads from bytes.
package queue
