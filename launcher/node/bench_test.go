package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// BenchmarkLocalJob is the brain's whole cost of a job of four ranks on its
// own node: submit, start, ends, forget, and its record.
func BenchmarkLocalJob(b *testing.B) {
	w := newNet(b, 1, 16)
	n := w.nodes["n1"].node
	var out launcher.Outbox
	now := w.Now()
	for b.Loop() {
		now += time.Millisecond
		synced := uint64(0)
		if k := len(out.Logs); k > 0 {
			synced = out.Logs[k-1].Number
		}
		out.Reset()
		n.StoreSynced(now, synced, &out)
		if n.Deadline() <= now {
			n.Tick(now, &out)
		}
		n.Submit(now, 1, gang(4), 1, &out)
		id := out.Starts[0].Launch.Ident
		n.Keeper(now, launcher.RanksStarted{Ident: id}, &out)
		ends := make([]launcher.RankEnd, 4)
		for i := range ends {
			ends[i].Rank = filch.Rank(i)
		}
		n.Keeper(now, launcher.RanksEnded{Ident: id, Ends: ends}, &out)
		n.Keeper(now, launcher.KeeperDone{Ident: id}, &out)
		if len(out.Deeds) != 1 {
			b.Fatalf("deeds %v, deadline %v", out.Deeds, n.Deadline())
		}
	}
}

func BenchmarkGather(b *testing.B) {
	for _, nodes := range []int{64, 1024} {
		b.Run(fmt.Sprintf("nodes=%d/need=half", nodes), func(b *testing.B) {
			w := newNet(b, nodes, 16)
			w.behave = func(k *keeper) { k.at = 10 * ms }
			jobs := 0
			for b.Loop() {
				id := w.submit(w.names[jobs%nodes], 1, gang(int32(nodes*8)))
				w.run(200 * ms)
				if e := w.ended(id); e.Code != 0 {
					b.Fatalf("ended %+v", e)
				}
				jobs++
			}
			b.ReportMetric(float64(w.sent)/float64(jobs)/float64(nodes), "messages/node/job")
		})
	}
}
