package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// TestStoreSixtyFour brings up 64 nodes at once, lets one die, and counts what
// the roster costs.
func TestStoreSixtyFour(t *testing.T) {
	l := newLab(t, 31)
	l.quiet = true
	for i := range 64 {
		l.start(filch.NodeName(fmt.Sprintf("n%d", i)), i == 0)
	}
	l.settle(time.Minute)
	t.Logf("settled after %v, %d messages, %d bytes, roster %d", l.Now(), l.sent, l.bytes, l.nodes[0].s.view.roster.Epoch)
	l.fill(l.nodes[9], "a", 1000, false)
	l.run(5 * time.Second)
	before, bytes, epoch := l.sent, l.bytes, l.nodes[0].s.view.roster.Epoch
	l.nodes[5].kill(10 * time.Millisecond)
	l.run(50 * time.Millisecond)
	l.settle(time.Minute)
	t.Logf("a death: %d messages, %d bytes, %d rosters", l.sent-before, l.bytes-bytes, l.nodes[0].s.view.roster.Epoch-epoch)
	l.expect(l.nodes[0], "a", 1000, dht.Done)
	l.check()
	l.run(10 * time.Second)
	before = l.sent
	l.run(time.Minute)
	if l.sent != before {
		t.Errorf("64 idle stores sent %d messages in a minute", l.sent-before)
	}
}
