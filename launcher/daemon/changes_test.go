package daemon

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/query"
	"github.com/filch-hpc/filch/launcher/events"
)

// await has node i wait for a change of a record. The result is closed when the wait is over.
func (c *cluster) await(i int, key dht.Key, from dht.Version) (over chan struct{}) {
	c.t.Helper()
	over = make(chan struct{})
	ctx, stop := context.WithCancel(c.t.Context())
	go func() {
		defer close(over)
		c.nodes[i].AwaitChange(ctx, map[dht.Key]dht.Version{key: from})
	}()
	c.t.Cleanup(func() { stop(); <-over })
	stacks := make([]byte, 4<<20)
	poll(c.t, "the wait to begin", func() bool {
		// The wait for the loop is a call of its own.
		s := stacks[:runtime.Stack(stacks, true)]
		return bytes.Contains(s, []byte("(*Daemon).AwaitChange(")) && !bytes.Contains(s, []byte("inputs.(*Queue).Ask("))
	})
	return over
}

// swap writes a record at node i, over a version.
func (c *cluster) swap(i int, key dht.Key, value string, expect dht.Version) (v dht.Version) {
	c.t.Helper()
	pollFor(c.t, 30*time.Second, "the write", func() bool {
		client := c.nodes[i].dial()
		defer client.Close()
		rs, err := client.Store(5*time.Second, dht.Op{Code: dht.OpSwap, Key: key, Kind: 1, Value: []byte(value), Expect: expect})
		if err == nil && rs[0].Outcome == dht.Done {
			v = rs[0].Version
			return true
		}
		if err == nil && rs[0].Outcome == dht.Mismatch && string(rs[0].Value) == value { // the write before was done
			v = rs[0].Version
			return true
		}
		return false
	})
	return v
}

func (c *cluster) home(key dht.Key) (home int) {
	c.t.Helper()
	poll(c.t, "the home of the record", func() bool {
		home = -1
		err := c.nodes[0].in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
			if _, _, replicas := t.Node.StoreHome(key); len(replicas) == len(c.nodes) {
				for i, r := range c.nodes {
					if r.in.Self == replicas[0].Name {
						home = i
					}
				}
			}
		})
		return err == nil && home >= 0
	})
	return home
}

func (c *cluster) changed(over <-chan struct{}, what string) {
	c.t.Helper()
	pollFor(c.t, 30*time.Second, what, func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	})
}

func unchanged(t *testing.T, over <-chan struct{}) {
	t.Helper()
	select {
	case <-over:
		t.Fatal("the wait is over without a change")
	default:
	}
}

// A launcher that waits for a change of a record hears of the record's creation, and of a write,
// on another node.
func TestAChangeIsHeardOnOtherNodes(t *testing.T) {
	c := newCluster(t, 3, 1)
	const key = "test/pools"
	home := c.home(key)
	waits, writes := (home+1)%3, (home+2)%3
	over := c.await(waits, key, dht.Version{})
	unchanged(t, over)
	v := c.swap(writes, key, "a", dht.Version{})
	c.changed(over, "the creation to be heard")

	over = c.await(waits, key, v)
	for range 3 { // other records do not end the wait
		c.swap(writes, "test/other", "x", dht.Version{})
	}
	unchanged(t, over)
	c.swap(writes, key, "b", v)
	c.changed(over, "the write to be heard")
}

// The home of a record has the list of the nodes that wait. A list that is lost with the home is
// made again: by the successor of a home that dies, and by a home that comes back.
func TestAChangeIsHeardAfterTheLossOfItsHome(t *testing.T) {
	for name, back := range map[string]bool{"dies": false, "comes-back": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, 1)
			const key = "test/pools"
			home := c.home(key)
			waits, writes := (home+1)%3, (home+2)%3
			v := c.swap(writes, key, "a", dht.Version{})
			over := c.await(waits, key, v)
			if back {
				c.restart(home)
			} else {
				c.nodes[home].Stop()
				c.nodes[home].end()
			}
			unchanged(t, over)
			c.swap(writes, key, "b", v)
			c.changed(over, "the write to be heard")
		})
	}
}

// A rest ends with an event of another node, and with one of the own node.
func TestARestEndsWithAnEvent(t *testing.T) {
	c := newCluster(t, 3, 1)
	rest := func() <-chan struct{} {
		over := make(chan struct{})
		await := query.Rest(c.nodes[0].queries)
		go func() { defer close(over); await(t.Context()) }()
		return over
	}
	for _, who := range []int{2, 0} {
		var all []<-chan struct{}
		poll(t, "a rest that goes on", func() bool { // events of the begin may end the first
			all = []<-chan struct{}{rest(), rest(), rest()}
			for _, over := range all {
				select {
				case <-over:
					return false
				default:
				}
			}
			return true
		})
		c.nodes[who].in.Watch.Event(events.Event{Kind: events.Note, Reason: "here"})
		for _, over := range all {
			c.changed(over, "the rest to end")
		}
	}
}

// An overview is at rest without a live job, if the nodes that should answer do.
func TestWhatIsAtRest(t *testing.T) {
	c := newCluster(t, 2, 1)
	rests := func() bool { _, quiet, err := c.nodes[0].board.look(); return err == nil && quiet }
	poll(t, "the nodes to be at rest", rests)
	req := request(t, 1, "sleep", "992")
	req.Detach = true
	run := c.submit(0, req)
	untilStarted(t, run)
	poll(t, "the nodes to be busy", func() bool { return !rests() })
	if err := run.Cancel(9); err != nil {
		t.Fatal(err)
	}
	poll(t, "the nodes to be at rest after the end", rests)
	c.nodes[1].Stop()
	c.nodes[1].end()
	poll(t, "a node that does not answer", func() bool { return !rests() })
	pollFor(t, 30*time.Second, "the nodes to be at rest without the dead node", rests)
}
