package keeper

import (
	"math"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// warmUp runs a job with a single rank and a program that cannot be executed, so the
// first real job finds the code in memory and the decoders built: in a cold process these
// cost more than the fork. The messages of this job reach no launcher.
func (k *keeper) warmUp() {
	order, err := wire.Marshal(launcher.Order{
		Programs: []launcher.Program{{Argv: []string{"sh"}, Ranks: []launcher.Span{{Count: 1}}}},
		Cwd:      "/", Env: []string{"PATH=/bin"}, Umask: 0o077, IO: launcher.IO{OutRank: -1, ErrRank: -1},
	})
	if err != nil {
		panic(err)
	}
	start, err := wire.Marshal(launcher.Start{Launch: launcher.Launch{
		Ident: filch.Ident{Instance: "rehearsal", Job: math.MaxInt32}, Size: 1, Order: order,
		Nodes: []launcher.NodeRanks{{Node: k.place.Node, Ranks: []launcher.Span{{Count: 1}}}},
	}})
	if err != nil {
		panic(err)
	}
	real := k.link
	k.link = &proc.Link{Poll: k.poll, FD: unix.Stdin, OnLost: func() {}, OnFrame: k.frame}
	if j, err := newJob(k, start); err == nil {
		k.job = j
		if j.prepare(); j.phase == ready {
			j.ranks[0].exe.Path = "/nonexistent/rehearsal"
			j.start()
			j.settle()
			if j.ranks[0].end.Kind != launcher.CauseNotFound {
				// No child can be born in a cgroup here (before Linux 5.7, or
				// a container that forbids clone3).
				k.cgroup.Remove()
			}
		}
		j.close()
	}
	k.job, k.link = nil, real
}
