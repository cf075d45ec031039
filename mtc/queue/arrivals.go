package queue

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// arrivalsMax bounds the arrivals that a node remembers: at 48 bytes each, 200 KB.
const arrivalsMax = 4096

// Arrival is the coming of the tasks Lo to Hi-1 of a job to the queue of a node. From is the
// node that had the tasks before; "" if they were submitted here, became ready here, or are
// tried again here.
type Arrival struct {
	Job    filch.JobID
	Lo, Hi int32
	From   filch.NodeName
	At     time.Duration
}

// Arrivals are the last arrivals at a node: the newest replaces the oldest.
type Arrivals struct {
	ring []Arrival
	next int
}

// Add takes in an arrival.
func (a *Arrivals) Add(job filch.JobID, lo, hi int32, from filch.NodeName, now time.Duration) {
	v := Arrival{job, lo, hi, from, now}
	if len(a.ring) < arrivalsMax {
		a.ring = append(a.ring, v)
		return
	}
	a.ring[a.next] = v
	a.next = (a.next + 1) % arrivalsMax
}

// Of lists the arrivals of a task, the oldest first.
func (a *Arrivals) Of(job filch.JobID, index int32) (list []Arrival) {
	for k := range a.ring {
		if v := a.ring[(a.next+k)%len(a.ring)]; v.Job == job && v.Lo <= index && index < v.Hi {
			list = append(list, v)
		}
	}
	return list
}

// Stamp is a time of a node in 32 bits, in milliseconds modulo 2^32; never 0, which stands
// for an unknown time.
func Stamp(now time.Duration) uint32 { return max(uint32(now/time.Millisecond), 1) }

// StagesOf are the parts of an attempt that began at began and came to the queue at the
// time with a stamp; in and out are how long its files were staged. Without any part: nil.
func StagesOf(stamp uint32, began, in, out time.Duration) *record.Stages {
	s := record.Stages{In: max(in, 0), Out: max(out, 0)}
	if stamp != 0 {
		s.Queued = max(time.Duration(Stamp(began)-stamp), 1) * time.Millisecond
	}
	if s == (record.Stages{}) {
		return nil
	}
	return &s
}
