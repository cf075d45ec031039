//go:build root

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// TestUncountedStarts kills the launcher that has a bag whose tasks may be
// started twice at most. What it had begun, the marks of the tasks tell: no task
// is lost, and none has an attempt that it did not run.
func TestUncountedStarts(t *testing.T) {
	c := up(t, rig.Sized(3, 5), nil)
	total, kills := rig.Sized(1200, 6000), rig.Sized(1, 5)
	var left, begun int
	const enough, most = 32, 4 // a launcher may die with few starts unrecorded
	k := 0
	for ; k < kills || left < enough && k < kills+most; k++ {
		maybe, ran := c.uncounted(k, total)
		left, begun = left+maybe, begun+ran
	}
	if left < enough {
		t.Errorf("the %d launchers that were killed may have started %d tasks without a record: too few to show anything", k, left)
	}
	t.Logf("figure: %d bags of %d tasks, --crash-limit 1, a launcher of each killed: of %d tasks that it may have started %d had run; none counted, none lost",
		k, total, left, begun)
}

// uncounted runs bag k, kills the launcher that has the bag, and returns how many tasks
// may have started there without a record, and how many of them had run.
func (c *cluster) uncounted(k, total int) (left, begun int) {
	c.T.Helper()
	victim := k % len(c.Hosts)
	marks := filepath.Join(c.Dir, fmt.Sprintf("starts-%d", k))
	job := strings.TrimSpace(c.Must(victim, "submit", "--array", fmt.Sprintf("1-%d", total), "--keep", "none", "--crash-limit", "1",
		"--", "sh", "-c", "echo $FILCH_TASK $FILCH_ATTEMPT >>"+marks+"; sleep 0.02"))
	for end := time.Now().Add(settleWait); ; pause() {
		if _, err := os.Stat(marks); err == nil && len(readMarks(c.T, marks)) > total/8 {
			break
		}
		if time.Now().After(end) {
			c.T.Fatalf("of %d tasks less than an eighth had begun within %v", total, settleWait)
		}
	}
	c.Signal(victim, syscall.SIGKILL)
	before := readMarks(c.T, marks)
	if n := c.waitTasks(job, 3*time.Minute).Tasks; n.OK != int32(total) {
		c.T.Errorf("%d tasks, and so they ended: %+v", total, n)
	}
	c.Revive(victim)
	c.settled(settleWait)
	executed, tells := readMarks(c.T, marks), c.tells(job)
	for i := 1; i <= total; i++ {
		have := c.task(job, i-1)
		if have.Attempts != 1 || have.State != "ok" {
			c.T.Errorf("task %d was executed %d times, %d times before its node died, and is %s with %d attempts", i, executed[i], before[i], have.State, have.Attempts)
		}
		if executed[i] > 2 {
			c.T.Errorf("task %d with --crash-limit 1 was executed %d times", i, executed[i])
		}
		if executed[i] > 1 {
			tells(i, executed[i])
		}
		if have.Maybe {
			left++
			begun += min(before[i], 1)
		}
	}
	return left, begun
}
