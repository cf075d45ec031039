package mtc

import "github.com/filch-hpc/filch"

// Records is how many records a job may have, its own included.
func (j *Job) Records() int {
	n := int(j.Blocks()) + int(j.zones()) + 3
	if j.Lines {
		n += int(ceil(j.Total, PayloadSize))
	}
	return n
}

// Blocks is how many records hold the ends of its tasks.
func (j *Job) Blocks() int32 { return ceil(j.Total, BlockSize) }

func (j *Job) zones() int32 { return ceil(j.Total, ZoneSize) }

func ceil(n, size int32) int32 { return (n + size - 1) / size }

// Key names one of them. In this order those of a job that has ended may be
// removed: a zone goes behind its blocks, which would tell it how they stand, and
// the job's own last, since it says that nothing of the others is to be done again.
func (j *Job) Key(id filch.JobID, i int) string {
	n := int32(i)
	if n < j.Blocks() {
		return KeyBlock(id, n)
	}
	if n -= j.Blocks(); n < j.zones() {
		return KeyZone(id, n)
	}
	switch n -= j.zones(); {
	case i == j.Records()-1:
		return KeyJob(id)
	case n == 0:
		return KeyCap(id)
	case n == 1:
		return KeySpec(id)
	}
	return KeyPayload(id, n-2)
}
