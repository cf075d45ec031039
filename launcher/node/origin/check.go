package origin

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// Check panics if an invariant of the jobs is broken.
func (o *Origin) Check() {
	gathers, unsent := 0, 0
	for id, j := range o.jobs { // in any order: nothing comes out
		o.checkJob(id, j)
		if j.gather != nil {
			gathers++
		}
		if j.run != nil && j.run.unsent != nil && j.run.unsent.loan == nil {
			unsent++
		}
	}
	if gathers != o.gatherqueue.active || unsent != o.gatherqueue.unsent {
		panic(fmt.Sprintf("launcher: %d jobs gather and %d wait to be launched, %d and %d counted", gathers, unsent, o.gatherqueue.active, o.gatherqueue.unsent))
	}
}

func (o *Origin) checkJob(id filch.JobID, j *job) {
	stages := 0
	for _, in := range []bool{j.gather != nil, j.run != nil} {
		if in {
			stages++
		}
	}
	if j.id != id || stages > 1 {
		panic(fmt.Sprintf("launcher: job %d gathers and runs at once", id))
	}
	if j.run == nil {
		return
	}
	var prepared, started, done int32
	for i := range j.run.participants {
		s := &j.run.participants[i]
		if s.done || s.phase >= launcher.PhasePrepared {
			prepared++
		}
		if s.done || s.phase >= launcher.PhaseStarted {
			started++
		}
		if s.done {
			done++
		}
	}
	if prepared != j.run.prepared || started != j.run.started || done != j.run.done {
		panic(fmt.Sprintf("launcher: job %d counts %d %d %d, its seats %d %d %d", id, j.run.prepared, j.run.started, j.run.done, prepared, started, done))
	}
	if int(done) == len(j.run.participants) {
		panic(fmt.Sprintf("launcher: job %d is over everywhere and still here", id))
	}
	if j.run.tally.ended > j.need.Ranks {
		panic(fmt.Sprintf("launcher: job %d has %d ranks and %d ends", id, j.need.Ranks, j.run.tally.ended))
	}
}
