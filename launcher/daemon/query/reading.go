package query

import (
	"runtime"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Reading is one look at the counters and gauges of this node.
type Reading struct {
	Slots   launcher.SlotInfo
	Work    launcher.Work
	Stats   wire.StatsInfo
	Members map[string]int // nodes by their standing, as this node knows them
	Build   string
}

// counters answers the queries about counts and gauges.
type counters struct{ *Server }

// Read takes a reading of this node, in one turn of the loop. It fails when the loop has
// no turn within [inputs.LoopWait].
func (sv *Server) Read() (*Reading, error) {
	r := &Reading{Members: map[string]int{}, Build: sv.daemon.Build}
	err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		r.Slots, r.Work = t.Node.Slots(), t.Node.Work(t.Now)
		r.Stats.Keepers = sv.daemon.Keepers.Count()
	})
	if err != nil {
		return nil, err
	}
	counters{sv}.process(&r.Stats)
	for _, m := range sv.daemon.Nodes.List() {
		r.Members[m.Standing.String()]++
	}
	return r, nil
}

func (sv counters) stats() (s wire.StatsInfo) {
	sv.process(&s)
	_ = sv.in.Ask(inputs.LoopWait, func(*inputs.Turn) { s.Keepers = sv.daemon.Keepers.Count() })
	return s
}

// process sets the counters that the loop does not own.
func (sv counters) process(s *wire.StatsInfo) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.Node, s.UptimeSecs, s.Counts, s.Sent = sv.in.Self, sv.in.Now().Seconds(), sv.in.Watch.Counts(), sv.in.Watch.Kinds()
	s.Clients, s.Routes = sv.daemon.Clients.Count(), sv.daemon.Routes.Count()
	s.Goroutines, s.HeapBytes, s.Conns = runtime.NumGoroutine(), mem.HeapAlloc, sv.daemon.Network().Stats().Conns
}
