package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"
)

// How long after the declaration of its death the work of a node may stay
// without another owner, and what runs once and was started there without its
// end. The simulator holds the launcher to five and to twenty seconds; here, on
// a machine that others use too and with the next fault under way, a test fails
// later.
const (
	goesOnLimit = 30 * time.Second
	lostLimit   = 60 * time.Second
)

// logLine is what a launcher logged.
type logLine struct {
	Time  time.Time `json:"time"`
	Text  string    `json:"msg"`
	Event string    `json:"event"`
	Peer  string    `json:"peer"`
	Life  uint64    `json:"incarnation"`
}

var takenOver = regexp.MustCompile(`(go on here|is kept going here|are lost): (\S+) is gone`)

// checkBounds reads from the launchers' logs how soon the work of the dead went
// on, and fails where that took too long.
func (c *cluster) checkBounds() {
	c.T.Helper()
	var all []logLine
	for i := range c.Hosts {
		b, err := os.ReadFile(c.StateDir(i).Log())
		if err != nil {
			c.T.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		for lines.Buffer(nil, 1<<20); lines.Scan(); {
			var l logLine
			if json.Unmarshal(lines.Bytes(), &l) == nil {
				all = append(all, l)
			}
		}
	}
	deaths, goesOn, lost := boundsOf(all)
	c.T.Logf("figure: after %d deaths the last work went on %v after the declaration, and what runs once was lost after %v",
		deaths, goesOn.Round(time.Millisecond), lost.Round(time.Millisecond))
	if deaths == 0 {
		c.T.Error("no launcher logged the death of another")
	}
	if goesOn > goesOnLimit || lost > lostLimit {
		c.T.Errorf("the work of a dead node went on after %v, and what runs once was lost after %v: at most %v and %v", goesOn, lost, goesOnLimit, lostLimit)
	}
}

// boundsOf counts the deaths in the logs of all launchers, and says how long
// after the first word of a death the last of its work went on or was lost.
func boundsOf(all []logLine) (deaths int, goesOn, lost time.Duration) {
	slices.SortStableFunc(all, func(a, b logLine) int { return a.Time.Compare(b.Time) })
	type life struct {
		peer string
		n    uint64
	}
	gone := map[life]bool{}
	last := map[string]time.Time{} // when a node was last known to be dead, or back after it
	lives := map[string]uint64{}
	for _, l := range all {
		switch {
		case l.Text == "member" && l.Event == "dead" && !gone[life{l.Peer, l.Life}]:
			gone[life{l.Peer, l.Life}] = true
			last[l.Peer] = l.Time
			deaths++
		case l.Text == "member" && l.Event == "up" && l.Life > lives[l.Peer]:
			// Back before anybody missed it: that declares its life before dead.
			if old := lives[l.Peer]; old > 0 && !gone[life{l.Peer, old}] {
				gone[life{l.Peer, old}] = true
				last[l.Peer] = l.Time
				deaths++
			}
			lives[l.Peer] = l.Life
		}
		m := takenOver.FindStringSubmatch(l.Text)
		if m == nil || last[m[2]].IsZero() {
			continue
		}
		if took := l.Time.Sub(last[m[2]]); m[1] == "are lost" {
			lost = max(lost, took)
		} else {
			goesOn = max(goesOn, took)
		}
	}
	return deaths, goesOn, lost
}

func TestBoundsOfLogs(t *testing.T) {
	at := func(ms int, text, event, peer string, life uint64) logLine {
		return logLine{time.UnixMilli(int64(ms)), text, event, peer, life}
	}
	deaths, goesOn, lost := boundsOf([]logLine{
		at(0, "member", "up", "n2", 5),
		at(0, "member", "up", "n3", 7),
		at(1000, "member", "dead", "n2", 5),
		at(1100, "member", "dead", "n2", 5), // another one says it too
		at(1500, "tasks 1 to 5 of job 3 go on here: n2 is gone", "", "n1", 0),
		at(2500, "job 3 is kept going here: n2 is gone", "", "n1", 0),
		at(4000, "2 tasks of job 3 from 256 on were started and are lost: n2 is gone", "", "n1", 0),
		at(5000, "member", "up", "n3", 8),
		at(5200, "3 tasks of job 3 from 0 on go on here: n3 is gone", "", "n1", 0),
	})
	if deaths != 2 || goesOn != 1500*time.Millisecond || lost != 3*time.Second {
		t.Errorf("%d deaths, work goes on after %v, lost after %v; want 2, 1.5s and 3s", deaths, goesOn, lost)
	}
}
