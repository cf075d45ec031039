package pmi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// BenchmarkStart is MPI_Init of a whole job as all its nodes' engines see it:
// every rank puts an address of 500 bytes, and gets one of each node.
func BenchmarkStart(b *testing.B) {
	for _, shape := range []struct{ nodes, ranks int32 }{{1, 16}, {4, 4}, {64, 16}, {1024, 1}} {
		b.Run(fmt.Sprintf("nodes=%d/ranks=%d", shape.nodes, shape.ranks), func(b *testing.B) {
			frames, bytes := 0, 0
			for b.Loop() {
				f, n := benchStart(each(shape.nodes, shape.ranks))
				frames, bytes = f, n
			}
			b.ReportMetric(float64(frames), "frames/op")
			b.ReportMetric(float64(bytes)/float64(shape.nodes), "framebytes/node")
		})
	}
}

// benchStart says how many frames went between nodes, and their bytes.
func benchStart(where []int32) (frames, bytes int) {
	nodes := where[len(where)-1] + 1
	engines := make([]*pmi.Engine, nodes)
	for n := range nodes {
		cfg := pmi.Config{Kvsname: kvsname, Size: int32(len(where)), Mapping: pmi.Mapping(where), Node: n, Nodes: nodes}
		for r, at := range where {
			if at == n {
				cfg.Local = append(cfg.Local, filch.Rank(r))
			}
		}
		engines[n] = pmi.New(cfg)
	}
	value := strings.Repeat("A", 500)
	var out pmi.Out
	type frame struct {
		from int32
		pmi.PeerFrame
	}
	var wire []frame
	act := func(n int32) {
		for _, p := range out.Peers {
			wire = append(wire, frame{n, p})
			bytes += len(p.Body)
		}
		frames += len(out.Peers)
		out.Reset()
	}
	for r, n := range where {
		engines[n].Feed(0, filch.Rank(r), fmt.Appendf(nil, "%scmd=put kvsname=%s key=-allgather-shm-1-%d value=%s\ncmd=barrier_in\n", hello1, kvsname, r, value), &out)
		act(n)
		for len(wire) > 0 {
			f := wire[0]
			wire = wire[1:]
			engines[f.To].Peer(0, f.from, f.Body, &out)
			act(f.To)
		}
	}
	for r, n := range where {
		for far := range nodes {
			engines[n].Feed(0, filch.Rank(r), fmt.Appendf(nil, "cmd=get kvsname=%s key=-allgather-shm-1-%d\n", kvsname, int(far)*len(where)/int(nodes)), &out)
			out.Reset()
		}
	}
	return frames, bytes
}
