//go:build root

package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/testbed/rig"
)

// TestTasksUnderFaults kills, stops and cuts off launchers while they do tasks,
// the submitting one first. Each task leaves a mark whenever it is executed.
func TestTasksUnderFaults(t *testing.T) {
	for _, once := range []bool{false, true} {
		name := "again"
		if once {
			name = "once"
		}
		t.Run(name, func(t *testing.T) { tasksUnderFaults(t, once) })
	}
}

func tasksUnderFaults(t *testing.T, once bool) {
	c := up(t, rig.Sized(5, 8), nil)
	total := rig.Sized(3000, 100_000)
	marks := filepath.Join(c.Dir, "marks")
	args := []string{"submit", "--array", fmt.Sprintf("1-%d", total), "--keep", "none"}
	if once {
		args = append(args, "--once")
	}
	args = append(args, "--", "sh", "-c", "echo $FILCH_TASK $FILCH_ATTEMPT >>"+marks+"; sleep "+rig.Sized("0.1", "0.03"))
	began := time.Now()
	job := strings.TrimSpace(c.Must(0, args...))

	strikes := c.strikeAll(job, rig.Sized(4, 1000))
	c.settled(settleWait)
	info := c.waitTasks(job, 3*time.Minute)
	took := time.Since(began)
	n := info.Tasks
	if ends := n.OK + n.Failed + n.Killed + n.Lost + n.Skipped + n.Cancelled; ends != int32(total) || n.Total != int32(total) {
		t.Errorf("%d tasks, %d ends: %+v", total, ends, n)
	}
	if n.Failed+n.Killed+n.Skipped+n.Cancelled > 0 || !once && n.Lost > 0 {
		t.Errorf("no task fails by itself: %+v", n)
	}
	again := c.checkMarks(marks, total, int(n.Lost), once, c.tells(job))
	c.checkBounds()
	t.Logf("figure: %d tasks under %d faults in %.0f s: %d ok, %d lost, %d executed again", total, strikes, took.Seconds(), n.OK, n.Lost, again)
}

// checkMarks compares how often tasks were executed with what is recorded, and
// counts those that were more than once; each of these is told to again.
func (c *cluster) checkMarks(marks string, total, lost int, once bool, again func(task, tries int)) (twice int) {
	c.T.Helper()
	executed, missing := readMarks(c.T, marks), 0
	for i := 1; i <= total; i++ {
		switch tries := executed[i]; {
		case tries == 0:
			missing++
		case tries > 1 && once:
			c.T.Errorf("task %d runs once, and was executed %d times", i, tries)
		case tries > 1:
			twice++
			again(i, tries)
		}
	}
	if missing > lost {
		c.T.Errorf("%d tasks were never executed, %d are lost", missing, lost)
	}
	return twice
}

// tells checks that the record of a task tells of so many executions: its
// attempts, and one more only where it says that.
func (c *cluster) tells(job string) func(task, tries int) {
	return func(task, tries int) {
		c.T.Helper()
		have := c.task(job, task-1)
		told := int(have.Attempts)
		if have.Maybe {
			told++
		}
		if told < tries {
			c.T.Errorf("task %d was executed %d times, its record tells of %d at most: %+v", task, tries, told, have)
		}
	}
}

// absence is a launcher that was struck.
type absence struct {
	until time.Time
	back  func()
}

// strikeAll strikes one launcher after the other, as long as the job runs and at
// most so often, and returns how often. Each is back 3 s later, every third one
// 15 s later. In full size one is struck every 8 s, whoever is still away.
func (c *cluster) strikeAll(job string, most int) (strikes int) {
	c.T.Helper()
	var away []absence
	for next := time.Now(); ; pause() {
		away = slices.DeleteFunc(away, func(a absence) bool {
			due := !time.Now().Before(a.until)
			if due {
				a.back()
			}
			return due
		})
		if strikes == most && len(away) == 0 {
			<-time.After(rig.Sized(4*time.Second, 0))
			return strikes
		}
		if strikes == most || time.Now().Before(next) {
			continue
		}
		if rig.Full() && c.hasEnded(job) {
			most = strikes
			continue
		}
		gone := 3 * time.Second
		if strikes%3 == 2 {
			gone = 15 * time.Second
		}
		away = append(away, absence{time.Now().Add(gone), c.strike(strikes%len(c.Hosts), strikes+strikes/3)})
		next = time.Now().Add(rig.Sized(gone+4*time.Second, 8*time.Second))
		strikes++
	}
}

// strike kills, stops or cuts off a launcher; what it returns undoes that.
func (c *cluster) strike(victim, kind int) func() {
	c.T.Helper()
	link := func(up bool) {
		if err := c.Hosts[victim].SetLink(up); err != nil {
			c.T.Fatal(err)
		}
	}
	switch kind % 3 {
	case 0:
		c.Signal(victim, syscall.SIGKILL)
		return func() { c.Revive(victim) }
	case 1:
		c.Signal(victim, syscall.SIGSTOP)
		return func() { c.Signal(victim, syscall.SIGCONT) }
	}
	link(false)
	return func() { link(true) }
}

// hasEnded reports whether some launcher says that the job has ended.
func (c *cluster) hasEnded(job string) bool {
	for i := range c.Hosts {
		l, err := c.dial(i)
		if err != nil {
			continue
		}
		b, err := l.Query(2*time.Second, wire.VerbInfo, job)
		l.Close()
		var info launcher.JobInfo
		if err == nil && json.Unmarshal(b, &info) == nil {
			return info.Code != nil
		}
	}
	return false
}

// waitTasks waits for the end of a job, asking one launcher after the other.
func (c *cluster) waitTasks(job string, limit time.Duration) (info launcher.JobInfo) {
	c.T.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		for i := range c.Hosts {
			l, err := c.dial(i)
			if err != nil {
				continue
			}
			b, err := l.Query(10*time.Second, wire.VerbWait, job, "5s")
			l.Close()
			if err != nil {
				c.T.Logf("wait at %s: %v", c.Hosts[i].Name, err)
				continue
			}
			if err := json.Unmarshal(b, &info); err == nil && info.Code != nil {
				return info
			}
		}
	}
	c.T.Fatalf("job %s has not ended within %v: %+v", job, limit, info)
	return info
}

// task asks about one task.
func (c *cluster) task(job string, index int) (have launcher.Task) {
	c.T.Helper()
	l, err := c.dial(len(c.Hosts) - 1)
	if err != nil {
		c.T.Fatal(err)
	}
	defer l.Close()
	b, err := l.Query(10*time.Second, wire.VerbTask, job, strconv.Itoa(index))
	if err == nil {
		err = json.Unmarshal(b, &have)
	}
	if err != nil {
		c.T.Fatalf("task %s.%d: %v", job, index, err)
	}
	return have
}

// readMarks counts the executions of each task.
func readMarks(t *testing.T, name string) map[int]int {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[int]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		word, _, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("a mark says %q", lines.Text())
		}
		all[n]++
	}
	return all
}
