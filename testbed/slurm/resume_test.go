package slurm_test

import (
	"fmt"
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

// Allocations in a row drain one queue; every third, the first included, is
// killed with all that it runs, every third is ended as by its time limit.
func TestAllocationsDrainOneQueue(t *testing.T) {
	r := newRig(t)
	lives, length, again, once := 3, 8*time.Second, 240, 60
	if full() {
		lives, length, again, once = 10, 45*time.Second, 6400, 600
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
	r.write("stay.sh", "#!/bin/sh\ntouch $HOME/up.$SLURM_JOB_ID\nexec sleep "+fmt.Sprint(int(length.Seconds()))+"\n")
	r.write("last.sh", "filch wait -t 10:00 1\necho first: $?\nfilch wait -t 10:00 2\necho second: $?\nfilch ps -a")
	var stops []float64
	kills := 0
	last := ""
	for life := range lives {
		script, resume := "stay.sh", "--resume slurm-"+last
		switch life {
		case 0:
			script, resume = "first.sh", ""
		case lives - 1:
			script = "last.sh"
		}
		id := r.submit("filch up --slots 4 "+resume+" -- sh $HOME/"+script, "-N4", "-n16")
		if life%3 < 2 && life < lives-1 {
			r.poll("the allocation to be up", func() bool {
				up, _ := filepath.Glob(filepath.Join(r.dir, "up."+id))
				return len(up) == 1
			})
			end := time.Now().Add(length - time.Second)
			r.poll("some work to be done", func() bool { return time.Now().After(end) })
			stops = append(stops, float64(time.Now().UnixNano())/1e9)
			if life%3 == 0 {
				kills++
				r.run("scancel", "--signal=KILL", "--full", id)
			} else {
				r.run("scancel", id)
			}
		}
		if r.wait = jobWithin; life == lives-1 {
			r.wait = 10 * time.Minute
		}
		out, _ := r.await(id)
		if life > 0 {
			match(t, out, `^filch: 2 jobs of slurm-`+last+`: \d+ tasks done, \d+ go on`)
		}
		if life == lives-1 {
			match(t, out, `^first: 0$`)
			match(t, out, `^ 1  task  bag +ok +0 `)
			match(t, out, `^ 2  task  bag +(failed +1|ok +0) +\d+ +- +\d+, \d+ ok(, \d+ lost)?$`)
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
	t.Logf("figure: %d allocations, %d of them killed: %d of %d tasks ran again after their end, none lost, none of %d --once tasks twice",
		lives, kills, repeated, again, once)
	r.clean()
}
