package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// TestVictimWaitsAsLongAsHomesTake has the homes of records take five seconds for each
// operation. A victim that asks after two seconds, each time, refuses the moves of its
// thieves by what it moves back, and doubles what the homes have to do.
func TestVictimWaitsAsLongAsHomesTake(t *testing.T) {
	const takes = 5 * time.Second
	r := newRig(t, 8, 1, policy.Policy{})
	offers, back := 0, 0
	r.store.slow = func(p record.Proposal) time.Duration {
		if p.Kind != record.RecordZone || p.Op != record.OpMerge {
			return 0
		}
		ops, _, err := record.DecodeZoneOps(p.Delta)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ops {
			if ops[i].Kind == record.ZoneMove && ops[i].From == ops[i].Owner {
				back++
			}
		}
		return takes
	}
	r.hear = func(_, _ filch.NodeName, m message.Message) {
		if o, ok := m.(*message.Offer); ok && len(o.Ranges)+len(o.Tasks) > 0 {
			offers++
		}
	}
	r.length = slow(time.Second)
	r.submit(0, submit.Job{Job: 1, Total: 400})
	r.run(1, time.Hour)
	t.Logf("%d offers, %d taken back", offers, back)
	if offers < 20 || 2*back > offers {
		t.Errorf("of %d offers %d were taken back, want less than half of many: those before a victim knew better", offers, back)
	}
}
