package ranks

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// StopTaskSteps ends the ranks here of the steps of a task.
func (h *Ranks) StopTaskSteps(t *local.Turn, serial uint64, why string) {
	for _, p := range h.sorted() {
		if p.launch.Task == serial && !p.over() {
			h.stopTaskStep(t, p, why)
		}
	}
}

// HasSteps reports whether a step of a task may have processes here.
func (h *Ranks) HasSteps(serial uint64) bool {
	for _, p := range h.participants { // in any order: a single step is enough
		if p.launch.Task == serial && !p.flags.freed {
			return true
		}
	}
	return false
}

// stopTaskStep ends the ranks of a step left behind by its task.
func (h *Ranks) stopTaskStep(t *local.Turn, p *participant, why string) {
	if p.fault.cause == launcher.CauseNone {
		p.fault = fault{cause: launcher.CauseCancel, err: *filch.Errorf(filch.Canceled, "%s", why)}
	}
	h.stop(t, p, launcher.SigTerm, min(FailGrace, p.launch.KillWait), why)
}

// stepsOf returns the keys of this node's participants in the steps of a job.
func (h *Ranks) stepsOf(job filch.JobID) (keys []slots.Key) {
	for k, p := range h.participants { // in any order: a set
		if p.launch.Parent == job {
			keys = append(keys, k)
		}
	}
	return keys
}

// TaskGone is the reason for ending a restored step of a task.
const TaskGone = "the task of this step ended with the launcher"
