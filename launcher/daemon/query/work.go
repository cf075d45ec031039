package query

import (
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/wire"
)

// work counts the work of all nodes, or, for a query of another node, of this node.
func (sv counters) work(local bool) (any, error) {
	own, err := sv.read()
	if err != nil {
		return nil, err
	}
	all := []launcher.Work{own.Work}
	if !local {
		return all, nil
	}
	peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbWork}, func(m peers.Member, v []launcher.Work, err error) {
		if err != nil || len(v) != 1 {
			v = []launcher.Work{{Node: m.Name, Silent: true}}
		}
		all = append(all, v[0])
	})
	return all, nil
}
