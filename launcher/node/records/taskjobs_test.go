package records

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// A job of tasks waits until its first task starts.
func TestTaskJobWaits(t *testing.T) {
	const second = int64(1e9)
	ended := []record.ZoneTally{{Tally: record.Tally{OK: 1}}}
	cancelled := []record.ZoneTally{{Tally: record.Tally{Cancelled: 2}}}
	for name, c := range map[string]struct {
		job             record.Job
		waited, elapsed float64
	}{
		"nothing-started":     {record.Job{}, 50, 0},
		"running":             {record.Job{Began: 130 * second, Zones: ended}, 30, 20},
		"ended":               {record.Job{Began: 130 * second, Closed: true, Total: 1, Zones: ended, Ended: 140 * second}, 30, 10},
		"cancelled":           {record.Job{Closed: true, Total: 2, Zones: cancelled, Ended: 145 * second, Void: filch.Cancelled}, 45, 0},
		"record-of-before":    {record.Job{Closed: true, Total: 1, Zones: ended, Ended: 140 * second}, 0, 40},
		"clock-behind":        {record.Job{Began: 90 * second, Zones: ended}, 0, 50},
		"clock-ahead":         {record.Job{Began: 160 * second, Zones: ended}, 50, 0},
		"end-before-its-time": {record.Job{Began: 130 * second, Closed: true, Total: 1, Zones: ended, Ended: 90 * second}, 0, 0},
	} {
		if c.job.Total == 0 {
			c.job.Total = 2
		}
		c.job.Ticket.UnixNS = 100 * second
		i := TaskJobInfo(7, &c.job, 150*second)
		if i.Waited != c.waited || i.Elapsed != c.elapsed {
			t.Errorf("%s: waited %v, elapsed %v, want %v and %v", name, i.Waited, i.Elapsed, c.waited, c.elapsed)
		}
	}
}
