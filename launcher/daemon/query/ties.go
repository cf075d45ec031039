package query

import (
	"os"
	"slices"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Look sends the Node the ties of all nodes. A node that does not answer counts as
// able to end its work.
func (sv *Server) Look() {
	ties, err := sv.ties()
	if err != nil {
		return
	}
	peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbTies}, func(m peers.Member, v []launcher.Tie, err error) {
		if err == nil && !slices.ContainsFunc(v, func(t launcher.Tie) bool { return t.Node != m.Name }) {
			ties = append(ties, v...)
		}
	})
	sv.in.Post(func(t *inputs.Turn) { t.Node.Knot(t.Now, ties, t.Out) })
}

// ties returns the ties of this node: runs and tasks that hold slots without a time
// limit, and whose only processes are waiting clients and processes waiting for those
// clients.
func (sv *Server) ties() ([]launcher.Tie, error) {
	ties := []launcher.Tie{}
	err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		ties = append(ties, slices.DeleteFunc(t.Node.Ties(), func(t launcher.Tie) bool {
			return t.Inside.Task != 0 && !sv.daemon.Runners.Endless(t.Inside.Task)
		})...)
	})
	if err != nil || len(ties) == 0 {
		return ties, err
	}
	tree := readProcesses()
	return slices.DeleteFunc(ties, func(t launcher.Tie) bool {
		pids := make([]int, len(t.Clients))
		for i, id := range t.Clients {
			pids[i] = sv.daemon.Clients.Process(id)
		}
		return !tree.tied(os.Getpid(), pids)
	}), nil
}
