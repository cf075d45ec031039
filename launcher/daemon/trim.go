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
)

// trims removes the oldest output of tasks, now and then and when asked, so that
// a node's disk does not fill up.
func (d *Daemon) trims() {
	dir := filepath.Dir(proc.Place{Dir: d.cfg.Dir.Path()}.OutputDir(0))
	ticker := time.NewTicker(trimEvery)
	defer ticker.Stop()
	for {
		gone, err := output.TrimSegments(dir, d.cfg.OutputBytes)
		if err != nil {
			d.fault("cannot remove old output of tasks", err)
		}
		if gone > 0 {
			d.watch.Log().Warn("removed the oldest output of tasks: the node keeps too much", "bytes", gone)
		}
		select {
		case <-ticker.C:
		case <-d.trim:
		case <-d.ctx.Done():
			return
		}
	}
}

// trimSoon has output trimmed now.
func (d *Daemon) trimSoon() {
	select {
	case d.trim <- struct{}{}:
	default:
	}
}
