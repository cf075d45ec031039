package lines

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/record"
)

func TestLinesComeAndGo(t *testing.T) {
	var l Lines
	if is, lacks := l.State(1); is != Away || lacks || !l.Ask(0) || l.Ask(0) {
		t.Fatal("an unknown line is not looked up once")
	}
	l.Keep(0, &record.Payload{Offs: []uint8{1, 2}, Lines: [][]byte{[]byte("one"), nil}})
	if is, _ := l.State(1); is != Here || string(l.Of(1)) != "one" {
		t.Errorf("line 1 is %d: %q", is, l.Of(1))
	}
	if is, _ := l.State(2); is != Gone {
		t.Errorf("the line that was given up is %d", is)
	}
	if is, lacks := l.State(3); is != Away || !lacks || l.Of(1) != nil {
		t.Errorf("line 3 is %d, lacks %v: the record is old", is, lacks)
	}
}

func TestMissingLinesAreLookedUpEverMoreSlowly(t *testing.T) {
	var l Lines
	now := time.Duration(0)
	at := l.Missing(now, 7)
	for range 10 {
		if due, _, next := l.Due(at - 1); len(due) != 0 || next != at {
			t.Fatalf("%d are due before %v", len(due), at)
		}
		due, job, _ := l.Due(at)
		if len(due) != 1 || due[0].Part != 7 || due[0].Since != 0 {
			t.Fatalf("due at %v: %v", at, due)
		}
		if job && at < time.Second {
			t.Errorf("the job is looked up at %v", at)
		}
		now, at = at, l.Missing(at, 7)
		if at-now > lineAgainMax {
			t.Errorf("the wait grew to %v", at-now)
		}
	}
	if l.Found(7); len(l.absent) != 0 {
		t.Error("the search goes on")
	}
}

func TestLinesAreBounded(t *testing.T) {
	var l Lines
	for part := range int32(kept + 3) {
		l.Ask(part)
		l.Keep(part, &record.Payload{})
	}
	if len(l.parts) != kept || l.Ask(2) == false {
		t.Errorf("%d records are kept, at most %d", len(l.parts), kept)
	}
}
