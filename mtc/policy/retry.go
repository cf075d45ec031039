package policy

import (
	"time"

	"github.com/filch-hpc/filch/mtc/record"
)

// Retries reports whether a failed task of a job may be tried again after so many tries, and
// the wait before; own is the task's own rule, nil for none. A failure to run the command at
// all (ours) is retried for every list of codes, and without a delay.
func Retries(s *record.Spec, own *record.Retry, tries, code int32, ours bool) (wait time.Duration, again bool) {
	most, rule := s.Retries, s.Retry
	if own != nil {
		if rule = own; own.Times > 0 {
			most = own.Times - 1
		}
	}
	switch {
	case tries >= most:
		return 0, false
	case rule == nil || ours:
		return 0, true
	}
	return rule.Wait(tries + 1), rule.Has(code)
}
