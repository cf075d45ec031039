//go:build root

package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
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
var watchFor = rig.Sized(8*time.Second, 15*time.Second)

// TestPauses kills launchers, and takes hosts off the network, while all nodes
// have more tasks than they can start at once, and looks how long the others go
// without a start.
func TestPauses(t *testing.T) {
	kill := func(c *cluster, i int, job string) {
		c.Signal(i, syscall.SIGKILL)
		c.seen(i, "gone", 4*time.Second)
		c.explained(i, job)
	}
	vanish := func(c *cluster, i int, _ string) {
		if err := c.Hosts[i].SetLink(false); err != nil {
			c.T.Fatal(err)
		}
	}
	for _, p := range []struct {
		what   string
		strike func(c *cluster, i int, job string)
		who    string
		once   bool
		bar    time.Duration
		full   bool
	}{
		{"kill", kill, "primary", false, KillPauseBar, false},
		{"kill", kill, "steward", true, KillPauseBar, false},
		{"kill", kill, "steward", false, KillPauseBar, true},
		{"kill", kill, "plain", false, KillPauseBar, true},
		{"kill", kill, "primary", true, KillPauseBar, true},
		{"vanish", vanish, "primary", false, VanishPauseBar, true},
		{"vanish", vanish, "plain", true, VanishPauseBar, true},
	} {
		if p.full && !rig.Full() {
			continue
		}
		name := p.what + "-" + p.who
		if p.once {
			name += "-once"
		}
		t.Run(name, func(t *testing.T) { pauses(t, p.who, p.once, p.bar, p.strike) })
	}
}

func pauses(t *testing.T, who string, once bool, bar time.Duration, strike func(c *cluster, i int, job string)) {
	c := up(t, 4, nil)
	marks := filepath.Join(c.Dir, "marks")
	args := []string{"submit", "--array", "1-20000", "--keep", "none"}
	if once {
		args = append(args, "--once")
	}
	// Two processes are all that a task takes.
	job := strings.TrimSpace(c.Must(0, append(args, "--", "bash", "-c", "echo $FILCH_NODE $EPOCHREALTIME >>"+marks+"; exec sleep 0.05")...))
	c.startedEverywhere(marks)
	<-time.After(2 * time.Second)
	victim := c.roleOf(who)
	at := time.Now()
	strike(c, victim, job)
	<-time.After(time.Until(at.Add(watchFor)))
	all := readStarts(t, marks)
	worst := time.Duration(0)
	for i, h := range c.Hosts {
		if i == victim {
			continue
		}
		starts := all[h.Name]
		gap, from := longest(starts, at, at.Add(watchFor))
		worst = max(worst, gap)
		t.Logf("%s: longest pause %.2f s, from %.2f s on; starts in each half second from 2 s before: %v", h.Name, gap.Seconds(), from.Seconds(), perHalf(starts, at))
	}
	t.Logf("figure: %s of %s: the other nodes start no task for %.2f s at most (bar %v)", t.Name(), c.Hosts[victim].Name, worst.Seconds(), bar)
	// A busy machine takes its time; the bar is that of the full size.
	if limit := rig.Sized(3*bar, bar); worst >= limit {
		t.Errorf("the other nodes of %s, which is the %s of job %s, started nothing for %v, the bar is %v", c.Hosts[victim].Name, who, job, worst, limit)
	}
}

// explained has another host explain a job; if the node is still gone afterwards,
// that must have named it.
func (c *cluster) explained(victim int, job string) {
	c.T.Helper()
	name, by := c.Hosts[victim].Name, (victim+1)%len(c.Hosts)
	out, err := c.Try(by, "explain", job)
	gone := slices.ContainsFunc(c.nodes(by), func(n wire.NodeInfo) bool { return string(n.Node) == name && n.State == "gone" })
	if want := "the launcher has ended on " + name; gone && !strings.Contains(out, want) {
		c.T.Errorf("explain says %q, %v; want it to say that %s", out, err, want)
	}
}

// startedEverywhere waits until all hosts start tasks.
func (c *cluster) startedEverywhere(marks string) {
	c.T.Helper()
	have := 0
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); pause() {
		if have = len(readStarts(c.T, marks)); have == len(c.Hosts) {
			return
		}
	}
	c.T.Fatalf("%d of %d nodes start tasks", have, len(c.Hosts))
}

// roleOf is the host that is the steward of jobs of the first host, the home of
// most shards of the others, or neither.
func (c *cluster) roleOf(who string) int {
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

// rejectFor is how long a firewall rejects all that comes to a node that lives:
// for less than it takes to be declared dead for its silence.
const rejectFor = 3 * time.Second

// TestRejected has a firewall reset the connections to a node that lives and
// refuse new ones: all, for a while, or for long those that others open. The others
// may call the node gone; nothing is lost by that, and no run ends.
func TestRejected(t *testing.T) {
	t.Run("all", func(t *testing.T) {
		rejected(t, func(c *cluster, victim int) {
			for i := range rig.Sized(1, 3) {
				until := time.Now().Add(rejectFor)
				c.reject(victim, "")
				if i == 0 { // a node that refuted it is not called gone again soon
					c.seen(victim, "gone", rejectFor)
				}
				<-time.After(time.Until(until))
				c.hear(victim)
				c.seen(victim, "up", settleWait)
			}
		})
	})
	t.Run("incoming", func(t *testing.T) {
		rejected(t, func(c *cluster, victim int) {
			c.reject(victim, c.port(victim))
			<-time.After(rig.Sized(8*time.Second, 20*time.Second))
			c.hear(victim)
		})
	})
}

func rejected(t *testing.T, strike func(c *cluster, victim int)) {
	c := up(t, 4, nil)
	victim := c.roleOf("primary")
	marks := filepath.Join(c.Dir, "marks")
	total := rig.Sized(60, 200)
	gang := make(chan error, 1)
	go func() {
		out, err := c.Try(0, "run", "-N", "4", "-n", "4", "sleep", rig.Sized("15", "30"))
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		gang <- err
	}()
	job := strings.TrimSpace(c.Must(0, "submit", "--once", "--array", fmt.Sprintf("1-%d", total), "--keep", "none", "--",
		"bash", "-c", "echo $FILCH_NODE $EPOCHREALTIME >>"+marks+"; exec sleep 0.7"))
	c.startedEverywhere(marks)
	strike(c, victim)
	info := c.waitTasks(job, 3*time.Minute)
	if n := info.Tasks; n.OK != int32(total) || n.Lost > 0 {
		t.Errorf("of %d tasks that run once %+v, want all ok", total, n)
	}
	begun := 0
	for _, starts := range readStarts(t, marks) { // any order
		begun += len(starts)
	}
	if begun != total {
		t.Errorf("%d tasks that run once were started %d times", total, begun)
	}
	if err := <-gang; err != nil {
		t.Errorf("the run on all nodes: %v", err)
	}
	t.Logf("figure: %d tasks that run once, a run on 4 nodes, %s rejected: %d ok, %d lost", total, c.Hosts[victim].Name, info.Tasks.OK, info.Tasks.Lost)
}

func (c *cluster) reject(i int, port string) {
	c.T.Helper()
	if err := c.Hosts[i].Reject(port); err != nil {
		c.T.Fatal(err)
	}
}

func (c *cluster) hear(i int) {
	c.T.Helper()
	if err := c.Hosts[i].Hear(); err != nil {
		c.T.Fatal(err)
	}
}

// port is where a host's launcher listens.
func (c *cluster) port(i int) string {
	c.T.Helper()
	for _, n := range c.nodes(i) {
		if n.Node == filch.NodeName(c.Hosts[i].Name) && len(n.Addrs) > 0 {
			if _, port, err := net.SplitHostPort(n.Addrs[0]); err == nil {
				return port
			}
		}
	}
	c.T.Fatalf("%s does not say where it listens", c.Hosts[i].Name)
	return ""
}

// nodes is what the launcher of a host says of all of them.
func (c *cluster) nodes(i int) (all []wire.NodeInfo) {
	c.T.Helper()
	l, err := c.dial(i)
	if err != nil {
		return nil
	}
	defer l.Close()
	b, err := l.Query(5*time.Second, wire.VerbNodes)
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		c.T.Logf("nodes of %s: %v", c.Hosts[i].Name, err)
	}
	return all
}

// seen waits until some other host says that a node has that state.
func (c *cluster) seen(victim int, state string, limit time.Duration) {
	c.T.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); pause() {
		for i := range c.Hosts {
			if i == victim {
				continue
			}
			if slices.ContainsFunc(c.nodes(i), func(n wire.NodeInfo) bool { return n.Node == filch.NodeName(c.Hosts[victim].Name) && n.State == state }) {
				return
			}
		}
	}
	c.T.Fatalf("nobody said within %v that %s is %s", limit, c.Hosts[victim].Name, state)
}
