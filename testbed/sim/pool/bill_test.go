package pool

import (
	"testing"
	"time"
)

// TestBill: two allocations come 3 s after their submission, join for 2 s and stay until the
// end. The first has four tasks of 10 s, then two of 20 s; the second has none.
func TestBill(t *testing.T) {
	p := bursts()
	p.Fixed, p.Delay = 2, 3*time.Second
	p.Work = []Work{{At: time.Second, Tasks: 4, Length: 10 * time.Second}, {At: 21 * time.Second, Tasks: 2, Length: 20 * time.Second}}
	w := New(p, 1)
	r := w.Run()
	for _, b := range w.Broken {
		t.Error(b)
	}
	// The nodes are there at 6 s, and the work ends at 41 s.
	want := Bill{
		Queue: 6 * time.Second, Join: 4 * time.Second, Worked: 30 * time.Second, Between: 5 * time.Second,
		Unused: 35 * time.Second, Useless: 1, Spare: 10 * time.Second,
	}
	if r.Bill != want {
		t.Errorf("the bill has %+v, want %+v", r.Bill, want)
	}
	if got := r.Response(); got != (15+20)*time.Second/2 {
		t.Errorf("the mean response is %s, want 17.5s", got)
	}
	if r.Makespan != 40*time.Second {
		t.Errorf("the makespan is %s, want 40s", r.Makespan)
	}
	// The pool gives its one allocation back 5 s after the last task.
	p.Fixed, p.Spec.Max = 0, 1
	r = New(p, 1).Run()
	if r.Bill.First != 0 || r.Bill.Last < 4*time.Second || r.Bill.Last > 7*time.Second || r.Bill.Useless != 0 {
		t.Errorf("the bill of the pool is %s", &r.Bill)
	}
}
