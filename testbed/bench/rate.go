package main

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// rateFigure is how many jobs of four ranks of `true` ended in a second.
type rateFigure struct {
	Launcher string
	Clients  int
	Hosts    int // 0: four, and each job wherever there is room
	PerSec   float64
	CPUMS    float64 // per job
	Failed   int64
}

// rateRanks is the size of the jobs whose rate is measured: the papers' jobs.
const rateRanks = 4

// rates prints jobs per second, launched one after the other by one client and
// by eight at a time. A client is a command that is started and ends, as in a
// shell's loop.
func (b *bench) rates(o *ours, h *hydra) []rateFigure {
	fmt.Printf("\njobs of %d ranks of true, for %v each\n\n", rateRanks, b.rate)
	fmt.Printf("%-8s %8s %5s %9s %10s\n", "", "clients", "hosts", "jobs/s", "CPU ms/job")
	var all []rateFigure
	for _, hosts := range []int{1, 4, 0} {
		for _, clients := range []int{1, 8} {
			for _, r := range []rival{o, h} {
				c, where := r.command(ask{ranks: rateRanks, hosts: hosts}), strconv.Itoa(hosts)
				if hosts == 0 && r == rival(h) {
					continue // it starts ranks where it is told to
				}
				if hosts == 0 {
					c, where = o.anywhere(rateRanks), "any 4"
				}
				f := b.rateOf(c, clients)
				f.Launcher, f.Hosts = r.name(), hosts
				all = append(all, f)
				fmt.Printf("%-8s %8d %5s %9.0f %10.2f", f.Launcher, clients, where, f.PerSec, f.CPUMS)
				if f.Failed > 0 {
					fmt.Printf("  %d FAILED", f.Failed)
				}
				fmt.Println()
			}
		}
	}
	return all
}

func (b *bench) rateOf(c command, clients int) rateFigure {
	var done, failed atomic.Int64
	cpu, start := b.meter.cpu(), time.Now()
	var wait sync.WaitGroup
	for range clients {
		wait.Go(func() {
			for time.Since(start) < b.rate {
				if b.plain(c) {
					done.Add(1)
				} else {
					failed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	took := time.Since(start)
	time.Sleep(settle)
	f := rateFigure{Clients: clients, PerSec: float64(done.Load()) / took.Seconds(), Failed: failed.Load()}
	if n := done.Load(); n > 0 {
		f.CPUMS = millis(b.meter.cpu()-cpu) / float64(n)
	}
	return f
}

// plain runs c and reports whether it exited with 0.
func (b *bench) plain(c command) bool {
	pid, err := b.spawn(c.argv, c.env)
	if err != nil {
		return false
	}
	status, err := await(pid)
	return err == nil && status.Exited() && status.ExitStatus() == 0
}
