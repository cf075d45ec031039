package policy

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/record"
)

func TestRetriesByRule(t *testing.T) {
	rule := &record.Retry{Delay: time.Second, Codes: []record.CodeRange{{From: 75, To: 75}}}
	for name, x := range map[string]struct {
		rule, own   *record.Retry
		tries, code int32
		ours, again bool
		wait        time.Duration
	}{
		"no-rule":    {tries: 1, code: 9, again: true},
		"all-tried":  {tries: 2, code: 9},
		"code":       {rule: rule, tries: 1, code: 75, again: true, wait: 2 * time.Second},
		"other-code": {rule: rule, tries: 1, code: 9, wait: 2 * time.Second},
		"ours":       {rule: rule, tries: 1, code: 9, ours: true, again: true},
		"own":        {rule: rule, own: &record.Retry{Times: 4}, tries: 2, code: 9, again: true},
		"own-tried":  {rule: rule, own: &record.Retry{Times: 2}, tries: 1, code: 9},
		"own-no-end": {rule: rule, own: &record.Retry{}, tries: 1, code: 9, again: true},
	} {
		if wait, again := Retries(&record.Spec{Retries: 2, Retry: x.rule}, x.own, x.tries, x.code, x.ours); again != x.again || wait != x.wait {
			t.Errorf("%s: got %s, %t", name, wait, again)
		}
	}
}
