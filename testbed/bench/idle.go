package main

import (
	"fmt"
	"time"
)

// idleFigure is what one launcher costs while nothing is asked of it.
type idleFigure struct {
	Node      string
	CPUBefore float64 // percent of a core, before the jobs
	CPUAfter  float64
	RSSBefore int64 // bytes
	RSSEarly  int64 // after a tenth of the jobs, when the heap has found its size
	RSSAfter  int64
	Ready     int64 // RSS of the keeper that stands ready beside it, after the jobs
	Jobs      int
}

// calm is how long a launcher is left alone before it is called idle.
const calm = 2 * time.Second

// idleCost prints CPU and memory of each of four launchers, as they came up and
// after many jobs.
func (b *bench) idleCost(o *ours) ([]idleFigure, error) {
	env, err := o.up(b.scratch, "idle", 4, slotsTotal/4)
	if err != nil {
		return nil, err
	}
	defer o.down(env)
	list, err := o.nodes(env)
	if err != nil {
		return nil, err
	}
	fmt.Printf("\nidle launchers: %% of a core over %v, and RSS, before, after a tenth and after all of %d jobs\n\n", b.idle, b.jobs)
	time.Sleep(calm)
	cpuBefore, rssBefore := watchIdle(list, b.idle)
	start := time.Now()
	if err := b.manyJobs(o, env, b.jobs/10); err != nil {
		return nil, err
	}
	early := make([]int64, len(list))
	for i, n := range list {
		early[i] = rssBytes(n.PID)
	}
	if err := b.manyJobs(o, env, b.jobs-b.jobs/10); err != nil {
		return nil, err
	}
	took := time.Since(start)
	time.Sleep(calm)
	cpuAfter, rssAfter := watchIdle(list, b.idle)
	fmt.Printf("%-12s %9s %9s %9s %9s %9s %10s\n", "launcher", "CPU % ", "after", "RSS MB", "1/10", "after", "keeper MB")
	all := make([]idleFigure, len(list))
	for i, n := range list {
		f := idleFigure{Node: n.Name, CPUBefore: cpuBefore[i], CPUAfter: cpuAfter[i], RSSBefore: rssBefore[i], RSSEarly: early[i], RSSAfter: rssAfter[i], Jobs: b.jobs}
		for _, pid := range childrenOf(n.PID) {
			f.Ready += rssBytes(pid)
		}
		all[i] = f
		fmt.Printf("%-12s %9.3f %9.3f %9.1f %9.1f %9.1f %10.1f\n", n.Name, f.CPUBefore, f.CPUAfter,
			megabytes(f.RSSBefore), megabytes(f.RSSEarly), megabytes(f.RSSAfter), megabytes(f.Ready))
	}
	fmt.Printf("%d jobs took %.1f s\n", b.jobs, took.Seconds())
	return all, nil
}

// manyJobs runs jobs of one rank, and each tenth of sixteen over all.
func (b *bench) manyJobs(o *ours, env []string, n int) error {
	for i := range n {
		argv := []string{o.exe, "run", "-n", "1", "/bin/true"}
		if i%10 == 9 {
			argv = []string{o.exe, "run", "-n", "16", "/bin/true"}
		}
		if _, err := b.once(argv, env); err != nil {
			return fmt.Errorf("job %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// watchIdle returns each launcher's CPU in percent over d, that of the keeper
// that stands ready included, and the launcher's RSS after it.
func watchIdle(list []node, d time.Duration) (percent []float64, rss []int64) {
	cost := func(n node) time.Duration {
		total := threadCPU(n.PID)
		for _, pid := range childrenOf(n.PID) {
			total += threadCPU(pid)
		}
		return total
	}
	before := make([]time.Duration, len(list))
	for i, n := range list {
		before[i] = cost(n)
	}
	time.Sleep(d)
	for i, n := range list {
		percent = append(percent, 100*(cost(n)-before[i]).Seconds()/d.Seconds())
		rss = append(rss, rssBytes(n.PID))
	}
	return percent, rss
}

func megabytes(n int64) float64 { return float64(n) / (1 << 20) }
