package mtc

import (
	"time"

	"github.com/filch-hpc/filch/mtc/record"
)

// retries reports whether a failed task may be tried again after so many tries, and the
// wait before. A failure to run the command at all is retried for every list of codes,
// and without a delay.
func (e *execution) retries(j *job, payload []byte, end *End, tries int32) (wait time.Duration, again bool) {
	most, rule := j.spec.Retries, j.spec.Retry
	if rule == nil {
		return 0, tries < most || mutantForever
	}
	if rule.Tasks && e.core.cfg.Retry != nil {
		if j.rec != nil && j.rec.Graph {
			n, _ := record.DecodeGraphNode(payload) // the start reported a malformed node
			payload = n.Body
		}
		if own := e.core.cfg.Retry(payload); own != nil {
			rule = own
			if own.Times > 0 {
				most = own.Times - 1
			}
		}
	}
	switch {
	case tries >= most && !mutantForever:
		return 0, false
	case end.Ours:
		return 0, true
	}
	return rule.Wait(tries + 1), rule.Has(end.Code)
}
