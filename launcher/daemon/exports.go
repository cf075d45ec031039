package daemon

import (
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/metrics"
	"github.com/filch-hpc/filch/launcher/wire"
)

// exports is the server of the metrics, where one was asked for. An address that cannot be
// opened costs the metrics, not the launcher: filch metrics and the log tell why.
type exports struct {
	in      *inputs.Queue
	server  *metrics.Server
	trouble string
}

// begin serves until the daemon ends.
func (e *exports) begin(cfg metrics.Config) {
	if cfg.Addr == "" {
		return
	}
	var err error
	if e.server, err = metrics.Listen(cfg); err != nil {
		e.trouble = err.Error()
		e.in.Fault("no metrics", err)
		return
	}
	e.in.Watch.Log().Info("metrics are served", "url", e.server.URL())
	e.in.Go(func() {
		if err := e.server.Serve(e.in.Context()); err != nil {
			e.in.Fault("the metrics have ended", err)
		}
	})
}

// info says where the metrics are; after begin.
func (e *exports) info() wire.MetricsInfo {
	m := wire.MetricsInfo{Node: e.in.Self, Trouble: e.trouble}
	if e.server != nil {
		m.URL, m.Token = e.server.URL(), e.server.Token()
	}
	return m
}
