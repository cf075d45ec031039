package instance

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Two of three seats that are lost with their disks, the second before the others
// could replace the first, leave no roster that can change: only a person could accept
// that loss, and no person is in a fault run. So a plan that has a machine go for good
// must wait until what went before is replaced (seeds 755 and 794, where jobs waited
// for ever for ids and for a record).
func TestMachinesGoForGoodOneAfterTheOther(t *testing.T) {
	s := newScene(t, 5, 4)
	seats := s.newestRoster().Acceptors
	var gone []*host
	for _, h := range s.hosts[1:] {
		for _, name := range seats {
			if h.Name == name && len(gone) < 2 {
				gone = append(gone, h)
			}
		}
	}
	if len(seats) != 3 || len(gone) != 2 {
		t.Fatalf("the seats are %v, want three of five hosts", seats)
	}
	first, second := gone[0], gone[1]
	s.At(time.Second, func() { s.lose(first, time.Second) })
	s.At(3*time.Second, func() { s.lose(second, time.Second) })
	s.At(5*time.Second, func() {
		if !first.lost || second.lost || second.node == nil {
			t.Errorf("lost for good: %s %v, %s %v; want the first alone, and the second back", first.Name, first.lost, second.Name, second.lost)
		}
	})
	s.At(25*time.Second, func() { s.lose(second, time.Second) })
	job := s.submit(0, 40*time.Second, 4, time.Second)
	job.request.Detach = true
	s.Run(time.Minute)
	if !second.lost {
		t.Errorf("%s is not lost for good, %v after %s", second.Name, 24*time.Second, first.Name)
	}
	if job.id == 0 {
		t.Error("a detached job that came after that was not acknowledged")
	}
	s.end(s.Now()) // its record tells its end
}

// A machine that is off for good, and of which nobody knows that yet, is left alone with
// a shard when the other replicas end before its death is noticed. Then nobody has the
// records of that shard any more, so it comes back (seed 2055, where a bag of tasks
// waited for ever for the record of its zone); unless the others have replaced it.
func TestMachineComesBackWhereOthersDieBeforeItIsReplaced(t *testing.T) {
	for _, x := range []struct {
		name string
		die  time.Duration // the other launchers, after the machine
		back bool
	}{{"at once", 500 * time.Millisecond, true}, {"once it is replaced", 20 * time.Second, false}} {
		t.Run(x.name, func(t *testing.T) {
			s := newScene(t, 5, 4)
			gone := s.hosts[1]
			s.At(time.Second, func() {
				if s.lose(gone, time.Second); !gone.lost {
					t.Error("the machine is not off for good: the scene shows nothing")
				}
			})
			for _, h := range s.hosts[2:4] {
				s.At(time.Second+x.die, func() { s.killLauncher(h) })
				s.At(2*time.Second+x.die, func() { s.restart(h) })
			}
			s.end(40 * time.Second)
			if back := !gone.lost && gone.node != nil; back != x.back {
				t.Errorf("the machine is back: %t, want %t", back, x.back)
			}
		})
	}
}

// A node that was drained to leave, and may not, takes work again: it counts as room
// that jobs may wait for (seeds 134, 406, 517 and 563, where jobs waited for ever).
func TestLeaveThatIsRefusedUndoesItsDrain(t *testing.T) {
	drained := 0
	for seed := range uint64(4) {
		s := newScene(t, 3, 2)
		s.slanted = true // no host goes for good
		s.drawLeave(engine.NewDice(seed, streamChurn))
		whole := s.submit(0, faultSpan+time.Second, 6, time.Second)
		s.end(faultSpan + 10*time.Second)
		if s.hurt {
			drained++
		}
		if !whole.over() || whole.code != 0 {
			t.Errorf("seed %d: a job of all slots: over %t with %d, want it done", seed, whole.over(), whole.code)
		}
	}
	if drained == 0 {
		t.Error("no node was drained before it was to leave")
	}
}

// Of three disks one takes nothing, and the register moves to one seat. That one is
// killed and its disk rots, or its machine is off for good, and the others bring the
// move to an end: nobody knows what it has promised, so the roster is lost. A plan
// must do neither before the move is done (seed 10838: no detached job began any more).
func TestTheLastSeatIsSparedWhileTheSeatsMove(t *testing.T) {
	for _, machine := range []bool{false, true} {
		for after := 10 * time.Millisecond; after < time.Second; after += 50 * time.Millisecond {
			s := newScene(t, 3, 4)
			first, full, slow := s.hosts[0], s.hosts[1], s.hosts[2]
			s.At(time.Second, func() {
				s.slowDisk(slow, slowMax, 3*time.Second)
				s.fillDisk(full, 1500*time.Millisecond)
			})
			s.At(time.Second+after, func() {
				if machine {
					s.lose(first, 2*time.Second)
					return
				}
				s.rotDisk(first, false)
				s.At(s.Now()+2*time.Second, func() { s.restart(first) })
			})
			job := s.submit(1, 20*time.Second, 4, time.Second)
			job.request.Detach = true
			s.Run(time.Minute)
			if job.id == 0 {
				t.Errorf("machine %v, %v after a disk took nothing: a detached job that came later was not acknowledged", machine, after)
			}
			s.end(s.Now())
		}
	}
}
