//go:build root

package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
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
	logs := make([][]logLine, len(c.Hosts))
	for i := range c.Hosts {
		b, err := os.ReadFile(c.StateDir(i).Log())
		if err != nil {
			c.T.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		for lines.Buffer(nil, 1<<20); lines.Scan(); {
			var l logLine
			if json.Unmarshal(lines.Bytes(), &l) == nil {
				logs[i] = append(logs[i], l)
			}
		}
	}
	deaths, goesOn, lost := boundsOf(logs)
	c.T.Logf("figure: after %d deaths the last work went on %v after the declaration, and what runs once was lost after %v",
		deaths, goesOn.Round(time.Millisecond), lost.Round(time.Millisecond))
	if deaths == 0 {
		c.T.Error("no launcher logged the death of another")
	}
	if goesOn > goesOnLimit || lost > lostLimit {
		c.T.Errorf("the work of a dead node went on after %v, and what runs once was lost after %v: at most %v and %v", goesOn, lost, goesOnLimit, lostLimit)
	}
}

// boundsOf counts the deaths in the launchers' logs, and says how long after one
// the last of its work went on or was lost. A death is dated by who took the work
// over: one that was cut off takes all the others for dead, who are not.
func boundsOf(logs [][]logLine) (deaths int, goesOn, lost time.Duration) {
	type life struct {
		peer string
		n    uint64
	}
	gone := map[life]bool{}
	for _, lines := range logs {
		died := map[string]time.Time{} // or was back before anybody missed it
		known := map[life]bool{}       // here
		lives := map[string]uint64{}
		die := func(l life, at time.Time) { known[l], died[l.peer] = true, at }
		for _, l := range lines {
			switch old := lives[l.Peer]; {
			case l.Text == "member" && l.Event == "dead":
				die(life{l.Peer, l.Life}, l.Time)
			case l.Text == "member" && l.Event == "up" && l.Life == old:
				delete(known, life{l.Peer, old}) // it was this one that was cut off
			case l.Text == "member" && l.Event == "up" && l.Life > old:
				if lives[l.Peer] = l.Life; old > 0 && !known[life{l.Peer, old}] {
					die(life{l.Peer, old}, l.Time)
				}
			}
			m := takenOver.FindStringSubmatch(l.Text)
			if m == nil || died[m[2]].IsZero() {
				continue
			}
			if took := l.Time.Sub(died[m[2]]); m[1] == "are lost" {
				lost = max(lost, took)
			} else {
				goesOn = max(goesOn, took)
			}
		}
		maps.Copy(gone, known)
	}
	return len(gone), goesOn, lost
}

func TestBoundsOfLogs(t *testing.T) {
	at := func(ms int, text, event, peer string, life uint64) logLine {
		return logLine{time.UnixMilli(int64(ms)), text, event, peer, life}
	}
	deaths, goesOn, lost := boundsOf([][]logLine{{
		at(0, "member", "up", "n2", 5),
		at(0, "member", "up", "n3", 7),
		at(1000, "member", "dead", "n2", 5),
		at(1500, "tasks 1 to 5 of job 3 go on here: n2 is gone", "", "n1", 0),
		at(2500, "job 3 is kept going here: n2 is gone", "", "n1", 0),
		at(4000, "2 tasks of job 3 from 256 on were started and are lost: n2 is gone", "", "n1", 0),
		at(5000, "member", "up", "n3", 8),
		at(5200, "3 tasks of job 3 from 0 on go on here: n3 is gone", "", "n1", 0),
		at(9000, "member", "dead", "n3", 8),
		at(9300, "3 tasks of job 3 from 0 on go on here: n3 is gone", "", "n1", 0),
	}, {
		at(100, "member", "dead", "n3", 8), // this one was cut off
	}, {
		at(0, "member", "up", "n4", 2),
		at(1000, "member", "dead", "n4", 2), // and this one
		at(6000, "member", "up", "n4", 2),
		at(70000, "member", "up", "n4", 3),
		at(70100, "tasks 1 to 5 of job 3 go on here: n4 is gone", "", "n4", 0),
	}})
	if deaths != 4 || goesOn != 1500*time.Millisecond || lost != 3*time.Second {
		t.Errorf("%d deaths, work goes on after %v, lost after %v; want 4, 1.5s and 3s", deaths, goesOn, lost)
	}
}
