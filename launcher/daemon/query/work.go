package query

import (
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/wire"
)

// work counts the work of all nodes, or, for a query of another node, of this node.
func (sv counters) work(local bool) (any, error) {
	own := launcher.Work{}
	if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { own = t.Node.Work(t.Now) }); err != nil {
		return nil, err
	}
	counts := sv.in.Watch.Counts()
	own.Messages, own.Store = counts["messages_out"], counts["store_out"]
	all := []launcher.Work{own}
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
