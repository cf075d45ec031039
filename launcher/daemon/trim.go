package daemon

import (
	"path/filepath"
	"time"

	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
)

// Limits of what a node keeps of tasks' output.
const (
	// outputQuota is beyond what anybody reads, and a small part of a node's
	// disk. Files that are written to are not counted against it.
	outputQuota = 1 << 30
	trimEvery   = time.Minute // between looks at the quota
	roomEvery   = 5 * time.Second
)

// trims removes the oldest output of tasks, now and then and when asked, so that
// a node's disk does not fill up: with less room than output leaves, nobody's
// records could be kept here, and the node would do nothing more.
func (d *Daemon) trims() {
	dir := filepath.Dir(proc.Place{Dir: d.cfg.Dir.Path()}.OutputDir(0))
	ticker := time.NewTicker(roomEvery)
	defer ticker.Stop()
	for due := time.Now(); ; {
		free, spare, err := output.Room(d.cfg.Dir.Path())
		need := spare - free // twice as much as it leaves: some may be written before the next look
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
		case <-d.ctx.Done():
			return
		}
	}
}

func (d *Daemon) trimNow(dir string, need int64) {
	gone, err := output.TrimSegments(dir, d.cfg.OutputBytes, need)
	if err != nil {
		d.fault("cannot remove old output of tasks", err)
	}
	if gone > 0 {
		d.watch.Log().Warn("removed the oldest output of tasks: the node keeps too much", "bytes", gone)
	}
}

// trimSoon has output trimmed now.
func (d *Daemon) trimSoon() {
	select {
	case d.trim <- struct{}{}:
	default:
	}
}
