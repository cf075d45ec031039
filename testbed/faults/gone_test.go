package faults

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/testbed/rig"
)

// How long the other nodes may start no task after the launcher of one was
// killed, and after the host of one vanished: then all that there is to go by is
// its silence.
const (
	KillPauseBar   = time.Second
	VanishPauseBar = 6 * time.Second
)

// watchFor is how long starts are looked at after a fault.
const watchFor = 15 * time.Second

// TestPauses kills launchers, and takes hosts off the network, while all nodes
// have more tasks than they can start at once, and looks how long the others go
// without a start.
func TestPauses(t *testing.T) {
	for _, who := range []string{"steward", "primary", "plain"} {
		t.Run("kill-"+who, func(t *testing.T) {
			pauses(t, who, KillPauseBar, func(c *cluster, i int) { c.Signal(i, syscall.SIGKILL) })
		})
	}
	t.Run("vanish", func(t *testing.T) {
		pauses(t, "plain", VanishPauseBar, func(c *cluster, i int) {
			if err := c.Hosts[i].SetLink(false); err != nil {
				c.T.Fatal(err)
			}
		})
	})
}

func pauses(t *testing.T, who string, bar time.Duration, strike func(c *cluster, i int)) {
	c := up(t, 4, nil)
	marks := filepath.Join(c.Dir, "marks")
	// It prints nothing into the store's segments, and two processes are all that a
	// task takes.
	job := strings.TrimSpace(c.Must(0, "submit", "--array", "1-20000", "--keep", "none", "--",
		"bash", "-c", "echo $FILCH_NODE $EPOCHREALTIME >>"+marks+"; exec sleep 0.05"))
	for end := time.Now().Add(30 * time.Second); ; pause() {
		if all := readStarts(t, marks); len(all) == len(c.Hosts) && time.Now().Before(end) {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%d of %d nodes start tasks", len(all), len(c.Hosts))
		}
	}
	<-time.After(2 * time.Second)
	victim := c.roleOf(who, job)
	at := time.Now()
	strike(c, victim)
	<-time.After(watchFor)
	all := readStarts(t, marks)
	delete(all, c.Hosts[victim].Name)
	worst := time.Duration(0)
	for _, name := range []string{"n1", "n2", "n3", "n4"} {
		if starts := all[name]; len(starts) > 0 {
			gap, from := longest(starts, at, at.Add(watchFor))
			worst = max(worst, gap)
			t.Logf("%s: longest pause %.2f s, from %.2f s on; starts in each half second: %v", name, gap.Seconds(), from.Seconds(), perHalf(starts, at))
		}
	}
	t.Logf("figure: %s of %s: other nodes pause for %.2f s at most (bar %v)", t.Name(), c.Hosts[victim].Name, worst.Seconds(), bar)
	if rig.Full() && worst >= bar {
		t.Errorf("the other nodes started nothing for %v, the bar is %v", worst, bar)
	}
}

// roleOf is the host that is the steward of a job, the home of its first zone,
// or neither.
func (c *cluster) roleOf(who, job string) int {
	c.T.Helper()
	home := 0
	most := -1
	for i := range c.Hosts {
		if r, err := c.roster(i); i > 0 && err == nil && r.Here.Homes > most {
			home, most = i, r.Here.Homes
		}
	}
	switch who {
	case "steward":
		return 0
	case "primary":
		return home
	}
	for i := 1; i < len(c.Hosts); i++ {
		if i != home {
			return i
		}
	}
	return home
}

// readStarts reads when tasks began on each node.
func readStarts(t *testing.T, name string) map[string][]time.Time {
	t.Helper()
	all := map[string][]time.Time{}
	f, err := os.Open(name)
	if err != nil {
		return all
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		node, at, _ := strings.Cut(lines.Text(), " ")
		sec, usec, _ := strings.Cut(at, ".")
		s, err := strconv.ParseInt(sec, 10, 64)
		u, err2 := strconv.ParseInt(usec, 10, 64)
		if err != nil || err2 != nil {
			t.Fatalf("a mark says %q", lines.Text())
		}
		all[node] = append(all[node], time.Unix(s, u*1000))
	}
	for _, l := range all { // any order
		slices.SortFunc(l, time.Time.Compare)
	}
	return all
}

// longest is the longest time without a start between two moments, and when it
// began after the first.
func longest(starts []time.Time, from, to time.Time) (gap, at time.Duration) {
	last := from
	for _, s := range append(slices.Clone(starts), to) {
		if s.Before(from) || s.After(to) {
			continue
		}
		if d := s.Sub(last); d > gap {
			gap, at = d, last.Sub(from)
		}
		last = s
	}
	return gap, at
}

func perHalf(starts []time.Time, at time.Time) []int {
	n := make([]int, 2*(2+watchFor/time.Second))
	for _, s := range starts {
		if i := int((s.Sub(at) + 2*time.Second) / (500 * time.Millisecond)); i >= 0 && i < len(n) {
			n[i]++
		}
	}
	return n
}

var _ = fmt.Sprint
var _ = wire.VerbRoster
