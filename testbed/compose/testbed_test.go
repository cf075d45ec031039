//go:build compose

package compose

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The promises: dead 5 s after the last sign of life, the rest of a job gone 2 s
// later, a cut-off node's ranks by their lease of 10 s and kill-wait. Docker
// itself and a busy machine get the margin.
const (
	margin     = 6 * time.Second
	lostWithin = 5*time.Second + 2*time.Second + margin
	cutWithin  = 10*time.Second + 1*time.Second + margin
	backWithin = 45 * time.Second
	pauseShort = 2 * time.Second
)

// TestTestbed is one cluster and one story: each part leaves it whole.
func TestTestbed(t *testing.T) {
	c := up(t)
	n := c.nodes
	c.whole(n[0], 60*time.Second)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"mpi-over-four-addresses", mpiOverFourAddresses},
		{"bytes-on-the-wire", bytesOnTheWire},
		{"a-node-is-killed", nodeKilled},
		{"the-node-typed-on-is-killed", originKilled},
		{"a-short-pause-costs-nothing", shortPause},
		{"a-long-pause-is-a-death", longPause},
		{"a-node-is-cut-off", cutOff},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			c.t = t
			for _, n := range c.nodes {
				n.t = t
			}
			part.run(t, c)
		}) {
			break // the rest needs a whole cluster
		}
	}
	c.t = t
}

func mpiOverFourAddresses(t *testing.T, c *cluster) {
	list, err := c.nodes[0].members()
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]bool{}
	for _, n := range c.nodes {
		for _, m := range list {
			if m.Name == n.host && strings.Contains(strings.Join(m.Addrs, " "), n.ip+":") {
				addresses[n.ip] = true
			}
		}
	}
	if len(addresses) != size {
		t.Fatalf("got %d distinct addresses, want %d: %+v", len(addresses), size, list)
	}
	out := c.nodes[0].run(0, "filch", "run", "-n", "4", "-N", "4", "/opt/mpi/cpi")
	for _, n := range c.nodes {
		if !regexp.MustCompile(`Process \d of 4 is on ` + n.host).MatchString(out) {
			t.Errorf("no rank of cpi says that it is on %s:\n%s", n.host, out)
		}
	}
	if !strings.Contains(out, "pi is approximately 3.14159") {
		t.Errorf("cpi did not compute pi:\n%s", out)
	}
	out = c.nodes[2].run(0, "filch", "run", "-n", "8", "-l", "/opt/mpi/hellow")
	for r := range 8 {
		if want := fmt.Sprintf("%d: Hello world from process %d of 8\n", r, r); !strings.Contains(out, want) {
			t.Errorf("hellow over eight ranks lacks %q:\n%s", want, out)
		}
	}
}

func bytesOnTheWire(t *testing.T, c *cluster) {
	a, b := c.nodes[1], c.nodes[2]
	beforeA, beforeB := a.received(), b.received()
	a.run(0, "filch", "run", "-n", "2", "-N", "2", "-w", hosts(a, b), "--cpu-bind=none", "NPmpich2", "-u", "10000", "-n", "20", "-o", "/dev/null")
	const least = 200_000
	if gotA, gotB := a.received()-beforeA, b.received()-beforeB; gotA < least || gotB < least {
		t.Errorf("NetPIPE put %d and %d bytes on the wire, want %d at least", gotA, gotB, least)
	}
}

// bystander starts a job that has nothing to do with the trouble.
func bystander(a, b *container, seconds int) *running {
	a.t.Helper()
	cmd := fmt.Sprintf("sleep %d.25", seconds)
	r := a.start("filch", "run", "-n", "2", "-N", "2", "-w", hosts(a, b), "sh", "-c", cmd+"; echo through")
	there(a.t, cmd, a, b)
	return r
}

func (r *running) through(within time.Duration) {
	r.t.Helper()
	if out := r.ends(0, within); strings.Count(out, "through\n") != 2 {
		r.t.Errorf("a job beside the trouble printed %q, want two lines", out)
	}
}

func nodeKilled(t *testing.T, c *cluster) {
	a, b, d, victim := c.nodes[0], c.nodes[1], c.nodes[2], c.nodes[3]
	other := bystander(b, a, 15)
	const ranks = "sleep 601.5"
	job := a.start("filch", "run", "-n", "3", "-N", "3", "-w", hosts(a, d, victim), "sleep", "601.5")
	there(t, ranks, a, d, victim)
	victim.docker("kill")
	job.ends(122, lostWithin)
	if text := job.err.String(); !strings.Contains(text, victim.host) {
		t.Errorf("the last line does not name the lost node %s: %q", victim.host, text)
	}
	gone(t, ranks, 2*time.Second, a, d)
	if out := a.run(0, "filch", "run", "-n", "3", "-N", "3", "hostname"); strings.Count(out, "\n") != 3 {
		t.Errorf("a job over the three that are left printed %q, want three lines", out)
	}
	other.through(30 * time.Second)
	victim.docker("start")
	c.whole(a, backWithin)
}

func originKilled(t *testing.T, c *cluster) {
	a, b, d, origin := c.nodes[0], c.nodes[1], c.nodes[2], c.nodes[3]
	other := bystander(a, b, 15)
	const ranks = "sleep 602.5"
	job := origin.start("filch", "run", "-n", "3", "-N", "3", "-w", hosts(b, d, origin), "sleep", "602.5")
	there(t, ranks, b, d, origin)
	origin.docker("kill")
	job.ends(137, execWithin) // of docker exec: its container is no more
	gone(t, ranks, lostWithin, b, d)
	other.through(30 * time.Second)
	origin.docker("start")
	c.whole(b, backWithin)
}

func shortPause(t *testing.T, c *cluster) {
	a, paused := c.nodes[0], c.nodes[3]
	job := bystander(a, paused, 6)
	paused.docker("pause")
	<-time.After(pauseShort)
	paused.docker("unpause")
	job.through(30 * time.Second)
	c.whole(a, backWithin)
}

func longPause(t *testing.T, c *cluster) {
	a, b, d, paused := c.nodes[0], c.nodes[1], c.nodes[2], c.nodes[3]
	other := bystander(b, d, 15)
	const ranks = "sleep 603.5"
	job := a.start("filch", "run", "-n", "2", "-N", "2", "--kill-wait", "1", "-w", hosts(a, paused), "sleep", "603.5")
	there(t, ranks, a, paused)
	paused.docker("pause")
	job.ends(122, lostWithin)
	gone(t, ranks, 2*time.Second, a)
	other.through(30 * time.Second)
	paused.docker("unpause")
	gone(t, ranks, cutWithin, paused)
	c.whole(a, backWithin)
	c.whole(paused, backWithin)
}

func cutOff(t *testing.T, c *cluster) {
	a, b, d, cut := c.nodes[0], c.nodes[1], c.nodes[2], c.nodes[3]
	other := bystander(b, d, 20)
	const ranks = "sleep 604.5"
	job := a.start("filch", "run", "-n", "2", "-N", "2", "--kill-wait", "1", "-w", hosts(a, cut), "sleep", "604.5")
	there(t, ranks, a, cut)
	cut.network("disconnect")
	began := time.Now()
	job.ends(122, lostWithin)
	gone(t, ranks, 2*time.Second, a)
	gone(t, ranks, cutWithin-time.Since(began)+margin, cut)
	other.through(30 * time.Second)
	cut.network("connect")
	c.whole(a, backWithin)
	c.whole(cut, backWithin)
	out := a.run(0, "filch", "run", "-n", "4", "-N", "4", "/opt/mpi/cpi")
	if !strings.Contains(out, "is on "+cut.host) {
		t.Errorf("no rank of cpi on the node that came back:\n%s", out)
	}
}
