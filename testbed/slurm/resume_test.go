//go:build root

package slurm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// drained is what the tasks of a queue wrote down: when each began and ended,
// in seconds of the day.
type drained struct {
	began, ended map[int][]float64
}

// drain reads it; job says of which job.
func (r *rig) drain(job string) drained {
	r.t.Helper()
	d := drained{map[int][]float64{}, map[int][]float64{}}
	files, _ := filepath.Glob(filepath.Join(r.dir, job+".n*"))
	for _, f := range files {
		for line := range strings.Lines(r.read(filepath.Base(f))) {
			w := strings.Fields(line)
			if len(w) != 3 {
				continue // torn by a kill
			}
			at, err := strconv.ParseFloat(w[1], 64)
			i, bad := strconv.Atoi(w[2])
			if err != nil || bad != nil {
				r.t.Fatalf("%s says %q", f, line)
			}
			if w[0] == "begin" {
				d.began[i] = append(d.began[i], at)
			} else {
				d.ended[i] = append(d.ended[i], at)
			}
		}
	}
	for _, all := range []map[int][]float64{d.began, d.ended} {
		for i := range all {
			slices.Sort(all[i])
		}
	}
	return d
}

// life is an allocation that ended as it was to, in seconds of the day.
type life struct{ up, end float64 }

// lost is the core time between the end of each slot's last task and that of its
// allocation, as a part of all core time: by all jobs, whose tasks are equally
// long.
func (r *rig) lost(lives []life, slots int, jobs ...string) (part float64) {
	r.t.Helper()
	var idle, all float64
	for _, l := range lives {
		for _, node := range []string{"n1", "n2", "n3", "n4"} {
			var ends []float64
			for _, job := range jobs {
				text, _ := os.ReadFile(filepath.Join(r.dir, job+"."+node))
				for line := range strings.Lines(string(text)) {
					w := strings.Fields(line)
					if len(w) != 3 || w[0] != "end" {
						continue
					}
					if at, err := strconv.ParseFloat(w[1], 64); err == nil && at > l.up && at < l.end+1 {
						ends = append(ends, min(at, l.end))
					}
				}
			}
			slices.Sort(ends)
			for i := range slots {
				last := l.up
				if k := len(ends) - 1 - i; k >= 0 {
					last = ends[k]
				}
				idle += l.end - last
				all += l.end - l.up
			}
		}
	}
	return idle / all
}

// life reads when an allocation was up, and when it was known to end.
func (r *rig) life(id, out string) (l life) {
	r.t.Helper()
	up, err := strconv.ParseFloat(strings.TrimSpace(r.read("up."+id)), 64)
	end, bad := strconv.ParseFloat(strings.TrimSpace(r.read("end."+id)), 64)
	if err != nil || bad != nil || end <= up {
		r.t.Fatalf("job %s was up at %v and ends at %v:\n%s", id, up, end, out)
	}
	return life{up, end}
}

// Allocations in a row drain one queue; of each three one is killed with all that
// it runs, one is ended from outside, and one ends when it was known to end.
func TestAllocationsDrainOneQueue(t *testing.T) {
	r := newRig(t)
	lives, length, again, once := 4, 7*time.Second, 340, 60
	if full() {
		lives, length, again, once = 10, time.Minute, 9000, 600
	}
	// Slack is how long before a stop a task may have ended and run again: a
	// second, and what a loaded machine adds to it. Stopping is how long a stop
	// takes: tasks go on until it comes to them.
	const slack, stopping = 5.0, 15.0
	r.write("task", `#!/bin/sh
echo begin $(date +%s.%N) $FILCH_TASK >>$HOME/$1.$(hostname)
sleep 0.9
echo end $(date +%s.%N) $FILCH_TASK >>$HOME/$1.$(hostname)
`)
	r.write("first.sh", fmt.Sprintf(`filch submit --array 0-%d -- $HOME/task again
filch submit --once --array 0-%d -- $HOME/task once
exec $HOME/stay.sh`, again-1, once-1))
	r.write("stay.sh", "#!/bin/sh\necho $END >$HOME/end.$SLURM_JOB_ID\ndate +%s.%N >$HOME/up.$SLURM_JOB_ID\nexec sleep $((END - $(date +%s)))\n")
	r.write("last.sh", "filch wait -t 10:00 1\necho first: $?\nfilch wait -t 10:00 2\necho second: $?\nfilch ps -a")
	var stops []float64
	var ordinary []life
	kills := 0
	last := ""
	for n := range lives {
		script, options := "stay.sh", "--drain 3s --ends $(date -d @$END +%Y-%m-%dT%H:%M:%S)"
		if n > 0 {
			options += " --resume slurm-" + last
		}
		switch n {
		case 0:
			script = "first.sh"
		case lives - 1:
			script, options = "last.sh", "--resume slurm-"+last
		}
		id := r.submit(fmt.Sprintf("export END=$(($(date +%%s) + %d))\nfilch up --slots 4 %s -- sh $HOME/%s", int(length.Seconds()), options, script), "-N4", "-n16")
		if n%3 < 2 && n < lives-1 {
			r.poll("the allocation to be up", func() bool {
				up, _ := filepath.Glob(filepath.Join(r.dir, "up."+id))
				return len(up) == 1
			})
			end := time.Now().Add(length - time.Second)
			r.poll("some work to be done", func() bool { return time.Now().After(end) })
			stops = append(stops, float64(time.Now().UnixNano())/1e9)
			if n%3 == 0 {
				kills++
				r.run("scancel", "--signal=KILL", "--full", id)
			} else {
				r.run("scancel", id)
			}
		}
		if r.wait = jobWithin; n == lives-1 {
			r.wait = 10 * time.Minute
		}
		out, _ := r.await(id)
		if n > 0 {
			match(t, out, `^filch: 2 jobs of slurm-`+last+`: \d+ tasks done, \d+ resumed`)
		}
		if n == lives-1 {
			match(t, out, `^first: 0$`)
			match(t, out, `^ 1  task  bag +ok +0 `)
			match(t, out, `^ 2  task  bag +(failed +1|ok +0) +\d+ +\S+ +\d+, \d+ ok(, \d+ lost)?$`)
		}
		if n%3 == 2 && n < lives-1 {
			ordinary = append(ordinary, r.life(id, out))
		}
		r.poll("end of all launchers", func() bool { return len(r.launchers()) == 0 })
		last = id
	}
	a, o := r.drain("again"), r.drain("once")
	repeated := 0
	for i := range again {
		if len(a.ended[i]) == 0 {
			t.Errorf("task %d is lost: it began %d times", i, len(a.began[i]))
		}
		if len(a.ended[i]) < 2 {
			continue
		}
		repeated++
		heard := true // its first end was long before any stop
		for _, k := range stops {
			if d := k - a.ended[i][0]; d > -stopping && d < slack {
				heard = false
			}
		}
		if heard {
			t.Errorf("task %d ended at %.1f, and again at %.1f; allocations were stopped at %.1f", i, a.ended[i][0], a.ended[i][1], stops)
		}
	}
	for i := range once {
		if len(o.began[i]) > 1 {
			t.Errorf("task %d runs once and began %d times", i, len(o.began[i]))
		}
	}
	part := 100 * r.lost(ordinary, 4, "again", "once")
	t.Logf("figure: %.1f %% of the core time of %d allocations of %v was lost at their ordinary ends", part, len(ordinary), length)
	if full() && part > 5 {
		t.Errorf("%.1f %% of the core time of %d allocations was lost at their ends, want at most 5 %%", part, len(ordinary))
	}
	t.Logf("figure: %d allocations, %d of them killed: %d of %d tasks ran again after their end, none lost, none of %d --once tasks twice",
		lives, kills, repeated, again, once)
	r.clean()
}
