package main

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

func TestNodesNameTheirHolders(t *testing.T) {
	node := func(stuck int32, slots ...int32) *wire.NodeInfo {
		n := &wire.NodeInfo{}
		n.Stuck = stuck
		for i, k := range slots {
			n.Holders = append(n.Holders, launcher.Holder{Job: filch.JobID(i + 1), Slots: k})
		}
		return n
	}
	for want, n := range map[string]*wire.NodeInfo{
		"-": node(0), "1:4": node(0, 4), "2:9,1:4": node(0, 4, 9), "2:9,1:4,3:2,+2": node(0, 4, 9, 2, 1, 1), "1:1,stuck:3": node(3, 1), "1:5": node(0, 5, 0),
	} {
		if got := heldBy(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestHoldersAreDescribed(t *testing.T) {
	e := &launcher.Explanation{Job: 9, Inside: 4}
	for _, c := range []struct {
		h    launcher.HolderInfo
		want string
	}{
		{launcher.HolderInfo{Holder: launcher.Holder{Job: 3, Slots: 1, Left: 125}, Name: "sim", Kind: "run"}, "job 3 (run sim) holds 1 slot on n[1-2], for 2m05s at most: then the time limit ends them"},
		{launcher.HolderInfo{Holder: launcher.Holder{Job: 4, Slots: 8, Tasks: 2}, Name: "many", Kind: "bag"}, "job 4 (bag many) holds 8 slots on n[1-2] with 2 tasks, without a time limit; job 9 was started inside it"},
		{launcher.HolderInfo{Holder: launcher.Holder{Job: 5, Slots: 2, Gathers: true}}, "job 5 holds 2 slots on n[1-2], and gathers more"},
		{launcher.HolderInfo{Holder: launcher.Holder{Job: 9, Slots: 2, Tasks: 2}}, "this job holds 2 slots on n[1-2] with 2 tasks, without a time limit"},
	} {
		c.h.Nodes = []filch.NodeName{"n1", "n2"}
		if got := holderLine(e, &c.h); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
