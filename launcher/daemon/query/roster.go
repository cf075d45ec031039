package query

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/wire"
)

// recoverWait limits the time for giving up lost shards, or the roster.
const recoverWait = 20 * time.Second

// roster returns this node's view of the store, and the replicas on each node.
func (sv *Server) roster(others bool) (any, error) {
	own, err := sv.rosterHere()
	if err != nil {
		return nil, err
	}
	all := []wire.RosterInfo{own}
	if !others {
		return all, nil
	}
	peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbRoster}, func(m peers.Member, v []wire.RosterInfo, err error) {
		if err != nil || len(v) != 1 {
			v = []wire.RosterInfo{{Node: m.Name, Silent: true}}
		}
		all = append(all, v[0])
	})
	return all, nil
}

func (sv *Server) rosterHere() (wire.RosterInfo, error) {
	var s store.Status
	r := wire.RosterInfo{Node: sv.in.Self, Seats: []filch.NodeName{}, Members: []wire.RosterMember{}, Lost: []uint16{}}
	err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		s = t.Node.StoreStatus()
		r.Majority = t.Node.SawMajority()
		r.Here.Dropped = t.Node.Dropped()
		r.Here.MirrorHeld, r.Here.Mirror = sv.daemon.Mirror.Holds(0, -1), sv.daemon.Mirror.Trouble()
		if !s.Known || !r.Majority || s.DiskReason != "" || len(s.Lost) > 0 {
			r.Trouble = t.Node.StoreTrouble()
		}
	})
	r.Known, r.Epoch, r.Generation, r.Sealed = s.Known, s.Epoch, s.Generation, s.Sealed
	r.Seats = append(r.Seats, s.Acceptors...)
	away := 0
	for _, m := range s.Members {
		if x, known := sv.daemon.Nodes.Find(m.Name); m.Name != sv.in.Self && (!known || !x.Standing.Answers()) {
			away++
		}
		r.Members = append(r.Members, wire.RosterMember{Node: m.Name, Incarnation: m.Incarnation})
	}
	if r.Trouble == "" && away > 0 {
		r.Trouble = fmt.Sprintf("%d of %d nodes that have records do not answer", away, len(s.Members))
	}
	r.Shards, r.Short, r.Learning = s.Shards, s.Short, s.Learners
	for _, l := range s.Lost {
		r.Lost = append(r.Lost, uint16(l))
	}
	r.Here.History, r.Here.HistoryEnds = sv.daemon.History()
	h, st := &r.Here, sv.daemon.Disk.Stats()
	h.Seated, h.Replicas, h.Homes, h.Records, h.Pending = s.Acceptor, s.Replicas, s.Homes, s.Records, s.Pending
	h.DiskBytes, h.LiveBytes, h.QuotaBytes, h.SkippedBytes = st.SizeBytes, st.LiveBytes, st.QuotaBytes, st.Skipped
	h.DiskTrouble = s.DiskReason
	slowest, why := sv.daemon.Disk.Slowest()
	h.SyncWait, h.SyncFault = slowest.Seconds(), why
	h.ClockJump = sv.clockJump().Seconds()
	var unknown error
	if r.Disk.Free, r.Disk.Size, unknown = output.Disk(sv.daemon.Dir.Path()); unknown != nil {
		sv.in.Fault("cannot find the free space of the disk", unknown)
	}
	r.Disk.Cut = sv.daemon.Cuts.Count()
	return r, err
}

// clockJump returns by how much the wall clock was set since the launcher began.
func (sv *Server) clockJump() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(sv.in.Began.Round(0)) - now.Sub(sv.in.Began)
}

// recover gives up the shards without any replica left; or the roster, if no majority
// of its seats is left.
func (sv *Server) recover() (any, error) {
	var r dht.Result
	done := make(chan struct{})
	if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		t.Node.StoreAcceptLoss(t.Now, func(have dht.Result) { r = have; close(done) }, t.Out)
	}); err != nil {
		return nil, err
	}
	if !sv.in.Await(done, recoverWait) {
		return nil, filch.Errorf(filch.Unavailable, "cannot recover the roster: no answer within %s", filch.ShortTime(recoverWait)).
			WithHint("`filch roster` shows where the store stands")
	}
	if r.Outcome != dht.Done {
		return nil, filch.Errorf(filch.Unavailable, "cannot recover the roster: %s", r.Err).
			WithHint("try again in a minute; `filch roster` shows where the store stands")
	}
	return wire.RecoverInfo{Shards: int(r.Version.Seq), Anew: r.Version.Epoch > 0}, nil
}
