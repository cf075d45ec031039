package filch

import "time"

// Usage is what ended processes used, as the kernel counts; the zero Usage is not known.
type Usage struct {
	User   time.Duration // processor time in user mode, to the microsecond
	System time.Duration // processor time in the kernel, likewise
	// PeakBytes is the most resident memory that one of the processes had at a time, to
	// the KiB.
	PeakBytes int64
	// AtMost is set if PeakBytes is an upper bound: the kernel counts the memory of the
	// process that started the program, and the program needed no more.
	AtMost bool
}

// Plus is the usage of both: the sum of the times, and the larger of the peaks.
func (u Usage) Plus(v Usage) Usage {
	sum := Usage{User: u.User + v.User, System: u.System + v.System, PeakBytes: u.PeakBytes, AtMost: u.AtMost}
	switch {
	case v.PeakBytes > u.PeakBytes:
		sum.PeakBytes, sum.AtMost = v.PeakBytes, v.AtMost
	case v.PeakBytes == u.PeakBytes:
		sum.AtMost = u.AtMost && v.AtMost
	}
	return sum
}
