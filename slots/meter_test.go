package slots_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/slots"
)

// TestMeter: slots with tasks and with launched ranks are busy; promised slots are not.
func TestMeter(t *testing.T) {
	l := New(cpus(4), 1)
	is := func(at, want time.Duration, busy int32) {
		t.Helper()
		spent, since, n := l.Meter.Spent(at)
		if spent != want || n != busy || since != 10 {
			t.Errorf("at %d: %d busy since %d, %d slots; want %d since 10, %d slots", at, spent, since, n, want, busy)
		}
	}
	l.Meter.Look(10)
	is(20, 0, 0)
	n, ok := l.TakeTask(20, filch.Room{Slots: 2})
	l.Meter.Look(20)
	is(25, 10, 2)
	gang := ask(1, 2)
	s := l.Ask(30, gang, 2)
	l.Meter.Look(30)
	is(40, 40, 2) // the gang's slots are held
	if _, locked := l.Lock(40, gang.Key, s.Lease, 2); !ok || !locked {
		t.Fatal("no room")
	}
	l.Meter.Look(40)
	is(50, 60, 2)
	l.Run(gang.Key, s.Lease)
	l.Meter.Look(50)
	is(60, 100, 4)
	l.EndTask(60, n, true) // out of service
	l.Meter.Look(60)
	is(70, 120, 2)
	l.End(70, gang.Key, s.Lease, false)
	l.Meter.Look(70)
	is(100, 120, 0)
}
