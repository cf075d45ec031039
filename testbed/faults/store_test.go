//go:build root

package faults

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// ServiceBar is how long a key may go without service when its primary was
// killed, the time in which that is found out included (99th percentile).
var ServiceBar = rig.Sized(6*time.Second, 1500*time.Millisecond)

// settleWait is how long the instance may take to be whole after a fault.
const settleWait = 45 * time.Second

// TestStoreUnderFaults breaks things one after the other under load.
func TestStoreUnderFaults(t *testing.T) {
	c := up(t, 5, nil)
	h := &history{began: time.Now()}
	end := &until{done: make(chan struct{})}
	p := newProber(c)
	end.work.Go(func() { p.run(end) })
	for id := range clients {
		u := newUser(c, id)
		end.work.Go(func() { u.load(h, end) })
	}
	p.gaps(t, h.began, 20*time.Second) // all is served once

	var gaps []time.Duration
	for range rig.Sized(3, 10) {
		gaps = append(gaps, c.killPrimary(p)...)
	}
	c.killSeat()
	c.stop(rig.Sized(5*time.Second, 60*time.Second))
	c.cut(p, rig.Sized(8*time.Second, 30*time.Second))
	c.deafen(rig.Sized(8*time.Second, 30*time.Second))
	c.lose(rig.Sized(8*time.Second, 30*time.Second))

	close(end.done)
	end.work.Wait()
	slices.Sort(gaps)
	p50, p99 := gaps[len(gaps)/2], gaps[(len(gaps)-1)*99/100]
	t.Logf("figure: %d keys lost their primary: without service for %.2f s (p50), %.2f s (p99)", len(gaps), p50.Seconds(), p99.Seconds())
	if p99 >= ServiceBar {
		t.Errorf("p99 is %v, the bar %v: %s", p99, ServiceBar, seconds(gaps))
	}
	h.check(t)
}

// killPrimary kills the launcher that is the home of the most shards, and
// starts it anew when everything is served again.
func (c *cluster) killPrimary(p *prober) []time.Duration {
	c.T.Helper()
	victim, most := 0, -1
	for i := range c.Hosts {
		if r, err := c.roster(i); err == nil && r.Here.Homes > most {
			victim, most = i, r.Here.Homes
		}
	}
	pid := c.Launcher(victim)
	if most <= 0 || pid == 0 {
		c.T.Fatalf("no launcher is the home of shards: %s, of %d", c.Hosts[victim].Name, most)
	}
	c.Signal(victim, syscall.SIGKILL)
	at := time.Now() // what began later cannot have been served by it
	for c.Launcher(victim) != 0 {
		if time.Since(at) > 5*time.Second {
			c.T.Fatalf("the launcher of %s, pid %d, is still there as %d after a kill -9", c.Hosts[victim].Name, pid, c.Launcher(victim))
		}
		pause()
	}
	gaps := p.gaps(c.T, at, 20*time.Second)
	c.T.Logf("killed %s, home of %d shards: %d of %d keys without service, for %s s", c.Hosts[victim].Name, most, len(gaps), probes, seconds(gaps))
	c.Revive(victim)
	c.settled(settleWait)
	return gaps
}

// killSeat kills a launcher that holds a seat of the roster; another takes it.
func (c *cluster) killSeat() {
	c.T.Helper()
	r, err := c.roster(0)
	if err != nil || len(r.Seats) == 0 {
		c.T.Fatalf("no seats: %+v, %v", r, err)
	}
	victim := c.index(r.Seats[len(r.Seats)-1])
	c.Signal(victim, syscall.SIGKILL)
	other := (victim + 1) % len(c.Hosts)
	end := time.Now().Add(30 * time.Second)
	for {
		now, err := c.roster(other)
		if err == nil && now.Generation > r.Generation && len(now.Seats) == len(r.Seats) && !slices.Contains(now.Seats, r.Seats[len(r.Seats)-1]) {
			break
		}
		if time.Now().After(end) {
			c.T.Errorf("the seat of %s was not taken by another: %+v, %v", c.Hosts[victim].Name, now, err)
			break
		}
		pause()
	}
	c.Revive(victim)
	c.settled(settleWait)
}

// stop has a launcher stand still, as a machine that swaps does.
func (c *cluster) stop(d time.Duration) {
	c.T.Helper()
	c.Signal(1, syscall.SIGSTOP)
	<-time.After(d)
	c.Signal(1, syscall.SIGCONT)
	c.settled(settleWait)
}

// cut pulls a host's cable and plugs it in again.
func (c *cluster) cut(p *prober, d time.Duration) {
	c.T.Helper()
	if err := c.Hosts[2].SetLink(false); err != nil {
		c.T.Fatal(err)
	}
	at := time.Now()
	<-time.After(d)
	// What asks the host that is cut off is not served; the others are.
	p.gaps(c.T, at, 20*time.Second)
	if err := c.Hosts[2].SetLink(true); err != nil {
		c.T.Fatal(err)
	}
	c.settled(settleWait)
}

// deafen has a host drop all that comes from two others, which still hear it.
func (c *cluster) deafen(d time.Duration) {
	c.T.Helper()
	for _, from := range []int{0, 1} {
		if err := c.Hosts[3].Deafen(c.Hosts[from]); err != nil {
			c.T.Fatal(err)
		}
	}
	<-time.After(d)
	if err := c.Hosts[3].Hear(); err != nil {
		c.T.Fatal(err)
	}
	c.settled(settleWait)
}

// lose has every host drop a part of what it is sent.
func (c *cluster) lose(d time.Duration) {
	c.T.Helper()
	for _, h := range c.Hosts {
		if err := h.Lose(10); err != nil {
			c.T.Fatal(err)
		}
	}
	<-time.After(d)
	for _, h := range c.Hosts {
		if err := h.Hear(); err != nil {
			c.T.Fatal(err)
		}
	}
	c.settled(settleWait)
}
