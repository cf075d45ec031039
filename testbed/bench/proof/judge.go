package main

import (
	"fmt"
	"strings"
)

// The bars for what the bench measures.
const (
	hydraBar   = 1.0  // of hydra's wall time, for every launch
	srunBar    = 0.3  // of srun's, for `true`
	rateBar    = 205  // jobs a second: CloudKon's best, on 1,024 machines
	idleCPUBar = 0.1  // percent of a core
	idleRSSBar = 40.0 // MB
	flatBar    = 1.10 // RSS after the jobs, of RSS after a tenth of them
)

// launchesWithin judges filch's wall time of each launch against a rival's:
// those of one program, and on so many hosts where that is not 0.
func launchesWithin(rival, what string, hosts int, bar float64) func(*figures) verdict {
	return func(f *figures) verdict {
		type kind struct {
			what         string
			ranks, hosts int
		}
		ours := map[kind]float64{}
		for _, l := range f.Launches {
			if l.Launcher == "filch" && l.Error == "" {
				ours[kind{l.What, l.Ranks, l.Hosts}] = l.WallMS
			}
		}
		worst, at, n := 0.0, "", 0
		var over []string
		for _, l := range f.Launches {
			if l.Launcher != rival || l.What != what || hosts != 0 && l.Hosts != hosts || l.Error != "" {
				continue
			}
			k := fmt.Sprintf("%s n=%d on %d", l.What, l.Ranks, l.Hosts)
			mine := ours[kind{l.What, l.Ranks, l.Hosts}]
			if mine == 0 {
				return verdict{measured: "filch failed at " + k}
			}
			n++
			ratio := mine / l.WallMS
			if ratio > worst {
				worst, at = ratio, k
			}
			if ratio > bar {
				over = append(over, fmt.Sprintf("%s: %.2f", k, ratio))
			}
		}
		if n == 0 {
			return verdict{measured: rival + " was not measured"}
		}
		text := fmt.Sprintf("%d launches, worst %.2f x %s (%s)", n, worst, rival, at)
		if len(over) > 0 {
			text += "; over the bar: " + strings.Join(over, ", ")
		}
		return verdict{measured: text, ok: len(over) == 0}
	}
}

// rates judges the jobs a second.
func rates(f *figures) verdict {
	v := verdict{ok: true}
	var said []string
	for _, r := range f.Rates {
		if r.Launcher != "filch" {
			continue
		}
		said = append(said, fmt.Sprintf("%.0f/s from %d over %d", r.PerSec, r.Clients, r.Hosts))
		if r.Failed > 0 || r.Clients == 8 && r.Hosts == 1 && r.PerSec < rateBar {
			v.ok = false
		}
	}
	v.measured = strings.Join(said, ", ")
	v.ok = v.ok && len(said) > 0
	return v
}

// stepsBar is how many times srun's steps a second ours must be.
const stepsBar = 10.0

// steps judges the steps a second of a loop beside srun's.
func steps(f *figures) verdict {
	ours := map[int]float64{}
	v := verdict{ok: true}
	var said []string
	for _, r := range f.Steps {
		if r.Failed > 0 {
			return verdict{measured: fmt.Sprintf("%d steps of %s failed", r.Failed, r.Launcher)}
		}
		if r.Launcher == "filch" {
			ours[r.Clients] = r.PerSec
			continue
		}
		ratio := ours[r.Clients] / max(r.PerSec, 0.001)
		said = append(said, fmt.Sprintf("%d at a time: %.0f/s beside %.0f/s, %.1f x", r.Clients, ours[r.Clients], r.PerSec, ratio))
		v.ok = v.ok && ratio >= stepsBar
	}
	v.measured = strings.Join(said, "; ")
	v.ok = v.ok && len(said) > 0
	return v
}

// idle judges what launchers cost when nothing is asked of them.
func idle(f *figures) verdict {
	var cpu, rss, growth float64
	jobs := 0
	for _, n := range f.Idle {
		cpu = max(cpu, n.CPUBefore, n.CPUAfter)
		rss = max(rss, float64(n.RSSAfter)/(1<<20), float64(n.RSSEarly)/(1<<20))
		growth = max(growth, float64(n.RSSAfter)/float64(max(1, n.RSSEarly)))
		jobs = n.Jobs
	}
	return verdict{
		measured: fmt.Sprintf("%d launchers: CPU at most %.3f %%, RSS at most %.1f MB, %.2f x from a tenth to all of %d jobs", len(f.Idle), cpu, rss, growth, jobs),
		ok:       len(f.Idle) > 0 && cpu < idleCPUBar && rss < idleRSSBar && growth <= flatBar,
	}
}
