package daemon

import (
	"path/filepath"
	"time"

	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
)

// Limits of the tasks' output on a node.
const (
	// outputQuota is more than anybody reads, and a small part of a node's disk. Files
	// still open for writing do not count against the quota.
	outputQuota = 1 << 30
	trimEvery   = time.Minute // between checks of the quota
	roomEvery   = 5 * time.Second
)

// trimLoop removes the oldest output of tasks, periodically and on request, so that a
// node's disk does not fill up: with less free space than output leaves, the node could
// store no records, and would do nothing more.
func (d *Daemon) trimLoop() {
	dir := filepath.Dir(proc.Place{Dir: d.cfg.Dir.Path()}.OutputDir(0))
	ticker := time.NewTicker(roomEvery)
	defer ticker.Stop()
	for due := time.Now(); ; {
		free, spare, err := output.Room(d.cfg.Dir.Path())
		// Twice the missing amount: tasks may write before the next check.
		need := spare - free
		if err != nil || free > 0 {
			need = 0
		}
		if asked := !time.Now().Before(due); asked || need > 0 {
			d.trimNow(dir, need)
			due = time.Now().Add(trimEvery)
		}
		select {
		case <-ticker.C:
		case <-d.trim:
			due = time.Now()
		case <-d.in.Context().Done():
			return
		}
	}
}

func (d *Daemon) trimNow(dir string, need int64) {
	gone, err := output.TrimSegments(dir, d.cfg.OutputBytes, need)
	if err != nil {
		d.in.Fault("cannot remove old output of tasks", err)
	}
	if gone > 0 {
		d.in.Watch.Log().Warn("removed the oldest output of tasks: the node keeps too much", "bytes", gone)
	}
}

// trimSoon requests a trim now.
func (d *Daemon) trimSoon() {
	select {
	case d.trim <- struct{}{}:
	default:
	}
}
