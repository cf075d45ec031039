// Package record is the records in which the nodes of an instance agree on the jobs of
// many tasks: a job's state, the zones and blocks with the owner and the end of each
// task, the lines of tasks, and the tokens of capped jobs.
//
// A record is bytes in the store. The store changes a record by a [Merge], a pure
// function of the record and a delta, so that every replica computes the same record. A
// delta is a list of operations ([BlockOp], [ZoneOp]) or a single operation ([JobOp],
// [CapOp]); the reply has a [Verdict] for each operation of a block or zone. The same
// delta merged again leaves the record as it is. Decoders take hostile bytes: each count
// and each length has a bound, and a decoder refuses input above a bound.
package record
