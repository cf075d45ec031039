package mtc

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// BenchmarkStations is a no-op task's way through the core, all stations with
// its end recorded: ready, room taken, started, ended, room given back.
func BenchmarkStations(b *testing.B) {
	const total = 100_000
	for b.Loop() {
		b.StopTimer()
		c := New(Config{Self: "n1", Incarnation: 1, Seed: 1})
		var out Out
		records := map[string][]byte{}
		merges := record.Merges()
		now := time.Duration(0)
		c.SetRoom(now, filch.Room{Slots: 64}, &out)
		b.StartTimer()
		if err := c.Submit(now, submit.Job{Job: 1, Total: total, Spec: record.Spec{Each: filch.Room{Slots: 1}}}, &out); err != nil {
			b.Fatal(err)
		}
		starts := 0
		for idle := 0; idle < 2; {
			do := out
			out = Out{}
			idle++
			for _, p := range do.Proposals {
				a := record.Answer{Status: record.AnswerAbsent, Value: records[p.Key]}
				if a.Value != nil {
					a.Status = record.AnswerDone
				}
				if p.Op == record.OpMerge {
					val, reply, err := merges[p.Kind](records[p.Key], p.Delta)
					if err != nil {
						b.Fatal(err)
					}
					if val != nil {
						records[p.Key] = val
					}
					a = record.Answer{Value: reply}
				}
				if p.Op != record.OpUnwatch && p.Op != record.OpWatch {
					c.Answered(now, p.Tag, a, &out)
				}
				idle = 0
			}
			for _, s := range do.Starts {
				starts++
				c.Ended(now, End{Run: s.Run, State: filch.OK}, &out)
				idle = 0
			}
			now += 10 * time.Microsecond
			if c.Deadline() <= now || idle > 0 && c.Deadline() < filch.Never {
				now = max(now, c.Deadline())
				c.Tick(now, &out)
				idle = 0
			}
		}
		if starts != total {
			b.Fatalf("%d starts", starts)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/total, "ns/task")
}
