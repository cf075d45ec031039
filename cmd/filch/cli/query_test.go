package cli

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// The last job may be among records that nodes still read from their disks: a command waits
// for the records, for a time, and never takes an older job for the last.
func TestLastJobWaitsForRecords(t *testing.T) {
	const reading = "2 of 64 shards have no replica yet"
	one, two := []launcher.JobInfo{{ID: 1, Submit: 1}}, []launcher.JobInfo{{ID: 1, Submit: 1}, {ID: 2, Submit: 2}}
	unread := wire.RosterInfo{Known: true, Trouble: reading, Lost: []uint16{4, 9}}
	for name, c := range map[string]struct {
		roster wire.RosterInfo // until the third look, then without trouble
		stays  bool            // after the third look too
		list   []launcher.JobInfo
		then   []launcher.JobInfo // from the third look
		want   filch.JobID
		kind   filch.Kind
	}{
		"reads":      {unread, false, nil, two, 2, 0},
		"reads-some": {unread, false, one, two, 2, 0},
		"no-roster":  {wire.RosterInfo{Trouble: "this node does not have the roster yet"}, false, nil, two, 2, 0},
		"none":       {unread, false, nil, nil, 0, filch.NotFound},
		"for-ever":   {unread, true, one, one, 0, filch.Unavailable},
		"full-disk":  {wire.RosterInfo{Known: true, Trouble: "full", Here: wire.StoreHere{DiskTrouble: "full"}}, true, nil, nil, 0, filch.NotFound},
		"cut-off":    {wire.RosterInfo{Known: true, Trouble: "most nodes of the instance do not answer"}, true, one, one, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			looks := 0
			conn, err := launcherOf(t, map[string]any{
				wire.VerbRoster: func() any {
					if looks++; looks >= 3 && !c.stays {
						return []wire.RosterInfo{{Known: true}}
					}
					return []wire.RosterInfo{c.roster}
				},
				wire.VerbPs: func() any {
					if looks >= 3 {
						return c.then
					}
					return c.list
				},
			})()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			limit := time.Now().Add(time.Minute)
			if c.kind == filch.Unavailable {
				limit = time.Now()
			}
			job, err := lastJob(conn, limit)
			if job != c.want || err == nil && c.kind != 0 || err != nil && ui.KindOf(err) != c.kind {
				t.Errorf("the last job is %d, %v; want %d and an error of kind %v", job, err, c.want, c.kind)
			}
		})
	}
}
