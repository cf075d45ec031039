package query

import (
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/wire"
)

// metrics says where all nodes serve their metrics, or, for a query of another node, where
// this node does.
func (sv counters) metrics(local bool) (any, error) {
	own := sv.daemon.Metrics()
	if !local {
		own.Token = ""
		return []wire.MetricsInfo{own}, nil
	}
	all := []wire.MetricsInfo{own}
	peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbMetrics}, func(m peers.Member, v []wire.MetricsInfo, err error) {
		if err != nil || len(v) != 1 {
			v = []wire.MetricsInfo{{Node: m.Name, Silent: true}}
		}
		all = append(all, v[0])
	})
	return all, nil
}
