//go:build root

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// pool is two allocations of as many hosts each, joined by an invitation. What
// stands for ssh enters the hosts; each has a disk of its own at the same path.
func pool(t *testing.T, each int) *cluster {
	t.Helper()
	c := &cluster{rig.New(t, "pool", 2)}
	c.Open(2 * each)
	local, rsh := filepath.Join(c.Dir, "local"), filepath.Join(c.Dir, "rsh")
	err := os.Mkdir(local, 0o700)
	var text strings.Builder
	text.WriteString("#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
	for i, h := range c.Hosts {
		text.WriteString(h.Name + ") exec " + strings.Join(h.Enter(c.Dir), " ") + " sh -c \"$*\" ;;\n")
		if err == nil {
			err = h.Command(context.Background(), "mount", "--bind", c.Local(i), local).Run()
		}
	}
	if err == nil {
		err = os.WriteFile(rsh, []byte(text.String()+"esac\nexit 1\n"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Extra = []string{"FILCH_LOCAL=" + local, "FILCH_RSH=" + rsh}
	t.Cleanup(func() {
		if t.Failed() {
			c.Logs()
		}
	})
	invitation := filepath.Join(c.Dir, "to-the-pool")
	words := func(first int, more ...string) []string {
		var names strings.Builder
		for i := first; i < first+each; i++ {
			names.WriteString("," + c.Hosts[i].Name)
		}
		return append([]string{"up", "--hosts", names.String()[1:], "--iface", "eth0", "--slots", "2"}, more...)
	}
	c.Must(0, words(0)...)
	c.Must(0, "invite", "-o", invitation)
	c.Must(each, words(each, "--join", invitation)...)
	c.settled(30 * time.Second)
	return c
}

// part has the two halves of a pool hear nothing of each other until it is
// healed.
func (c *cluster) part() (heal func()) {
	c.T.Helper()
	n := len(c.Hosts)
	for i, h := range c.Hosts {
		for k := range n / 2 {
			if err := h.Deafen(c.Hosts[(i/(n/2)*(n/2)+n/2+k)%n]); err != nil {
				c.T.Fatal(err)
			}
		}
	}
	return func() {
		for _, h := range c.Hosts {
			if err := h.Hear(); err != nil {
				c.T.Fatal(err)
			}
		}
	}
}

// Two allocations drain one bag, and are cut off from each other meanwhile: for
// less than it takes to be declared dead, and for longer.
func TestTwoAllocationsSurviveTheCutBetweenThem(t *testing.T) {
	c := pool(t, 2)
	cuts := rig.Sized([]time.Duration{2 * time.Second, 9 * time.Second},
		[]time.Duration{2 * time.Second, 20 * time.Second, 4 * time.Second, 12 * time.Second, 3 * time.Second, 30 * time.Second, 8 * time.Second})
	total, lasts := rig.Sized(500, 6000), "0.2"
	marks := func(name string) string { return filepath.Join(c.Dir, name) }
	submit := func(host int, name string, tasks int, more ...string) string {
		args := append([]string{"submit", "--array", fmt.Sprintf("1-%d", tasks), "--keep", "none"}, more...)
		args = append(args, "--", "sh", "-c", "echo $FILCH_TASK $FILCH_NODE >>"+marks(name)+"; sleep "+lasts)
		return strings.TrimSpace(c.Must(host, args...))
	}
	again := submit(0, "again", total)
	once := submit(2, "once", total/4, "--once")
	for _, length := range cuts {
		heal := c.part()
		<-time.After(length)
		heal()
		c.settled(settleWait)
	}
	info := c.waitTasks(again, 3*time.Minute)
	if n := info.Tasks; n.OK != int32(total) {
		t.Errorf("%d tasks, and so they ended: %+v", total, n)
	}
	if info = c.waitTasks(once, 3*time.Minute); info.Tasks.OK+info.Tasks.Lost != int32(total/4) {
		t.Errorf("%d --once tasks, and so they ended: %+v", total/4, info.Tasks)
	}
	repeated := c.checkMarks(marks("again"), total, 0, false, c.tells(again))
	c.checkMarks(marks("once"), total/4, int(info.Tasks.Lost), true, c.tells(once))
	where := map[string]int{}
	text, _ := os.ReadFile(marks("again"))
	for line := range strings.Lines(string(text)) {
		if w := strings.Fields(line); len(w) == 2 {
			where[w[1]]++
		}
	}
	if len(where) != len(c.Hosts) {
		t.Errorf("tasks ran on %v only", where)
	}
	t.Logf("figure: %d tasks in two allocations, cut off %d times, for %v: %d executed again, none lost; of %d --once tasks %d lost, none twice",
		total, len(cuts), cuts, repeated, total/4, info.Tasks.Lost)
}
