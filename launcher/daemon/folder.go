package daemon

import (
	"os"
	"time"

	"github.com/filch-hpc/filch/launcher/wire"
)

// How often the daemon looks at the folder of its node, the time for jobs to end on TERM
// when the folder is gone, and the time for all steps of going down then.
const (
	folderEvery = time.Second
	folderGrace = 500 * time.Millisecond
	folderWait  = 3 * time.Second
)

// watchFolder ends the launcher when the folder of the node is gone, or is another folder:
// no client and no successor would find the launcher, and nothing could be kept.
func (d *Daemon) watchFolder() {
	path := d.cfg.Dir.Path()
	ours, err := os.Stat(path)
	if err != nil {
		d.in.Fault("cannot watch the folder of the node", err)
		return
	}
	ticker := time.NewTicker(folderEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-d.in.Context().Done():
			return
		}
		now, err := os.Stat(path)
		if err == nil && os.SameFile(ours, now) || err != nil && !os.IsNotExist(err) {
			continue
		}
		d.in.Watch.Log().Error("the launcher ends: its folder was removed", "node", string(d.in.Self), "path", path)
		d.folderGone.Store(true)
		stop := time.AfterFunc(folderWait, d.Stop)
		defer stop.Stop()
		d.shutDown(folderGrace, wire.DownNode)
		return
	}
}
