//go:build root

package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/testbed/rig"
)

// queues are those of every node that answers, by name.
func (c *cluster) queues(from int) map[string]wire.QueueInfo {
	c.T.Helper()
	l, err := c.dial(from)
	if err != nil {
		c.T.Fatal(err)
	}
	defer l.Close()
	b, err := l.Query(5*time.Second, wire.VerbPolicy)
	var all []wire.PolicyInfo
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		c.T.Fatal(err)
	}
	byName := map[string]wire.QueueInfo{}
	for _, p := range all {
		byName[string(p.Node)] = p.Queues
	}
	return byName
}

// drainBound is how long the queue of a node that drains may be there.
const drainBound = 5 * time.Second

// TestDrain drains the node on which most of a bag is queued while every slot of
// the instance is taken, then drains and undoes one node after the other under load.
// Each task leaves a mark whenever it is executed.
func TestDrain(t *testing.T) {
	nodes, total, rounds := rig.Sized(4, 8), rig.Sized(400, 20_000), rig.Sized(4, 40)
	c := up(t, nodes, nil)
	marks, gate := filepath.Join(c.Dir, "marks"), filepath.Join(c.Dir, "gate")
	job := strings.TrimSpace(c.Must(1, "submit", "--array", fmt.Sprintf("1-%d", total), "--keep", "none", "--", "sh", "-c",
		"echo $FILCH_TASK $FILCH_ATTEMPT $FILCH_NODE >>"+marks+"; until test -e "+gate+"; do sleep 0.05; done; sleep 0.02"))
	c.wait("every slot is taken", 30*time.Second, func() bool {
		for _, q := range c.queues(0) {
			if q.Running < 2 || q.Shared == 0 {
				return false
			}
		}
		return true
	})
	victim, queued := "", int64(0)
	for name, q := range c.queues(0) { // any order: the longest
		if q.Shared > queued {
			victim, queued = name, q.Shared
		}
	}
	began := time.Now()
	c.Must(0, "drain", victim)
	var left wire.QueueInfo
	c.wait("the queue of "+victim+" is empty", 30*time.Second, func() bool {
		left = c.queues(0)[victim]
		return left.Shared+left.Dedicated == 0
	})
	took := time.Since(began)
	if took > drainBound {
		t.Errorf("%d tasks left %s within %v, want %v at most", queued, victim, took, drainBound)
	}
	if left.Running != 2 {
		t.Errorf("%d tasks run on %s after its drain, want 2", left.Running, victim)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		name := "n" + strconv.Itoa(2+round%(nodes-1))
		c.Must(0, "drain", "-m", "round "+strconv.Itoa(round), name)
		c.Must(0, "submit", "--wait", "--keep", "none", "--array", "1-20", "--", "true")
		c.Must(0, "drain", "--undo", name, victim)
	}
	info := c.waitTasks(job, 5*time.Minute)
	if n := info.Tasks; n.OK != int32(total) {
		t.Errorf("%d of %d tasks ended well: %+v", n.OK, total, n)
	}
	twice := 0
	executed := readMarks(t, marks)
	for i := 1; i <= total; i++ {
		if executed[i] != 1 {
			twice++
			t.Errorf("task %d was executed %d times", i, executed[i])
		}
	}
	t.Logf("figure: %d tasks left a node that drains in %.3f s; %d drains undone under load: %d of %d tasks with other than one start", queued, took.Seconds(), rounds, twice, total)
}

// wait polls until ok holds.
func (c *cluster) wait(what string, limit time.Duration, ok func() bool) {
	c.T.Helper()
	for end := time.Now().Add(limit); !ok(); pause() {
		if time.Now().After(end) {
			c.T.Fatalf("after %v still not: %s", limit, what)
		}
	}
}
