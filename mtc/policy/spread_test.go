package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

func TestNewsIsRepeated(t *testing.T) {
	m, s := NewMembers(), Spread{}
	for i, p := range []filch.Standing{filch.Up, filch.Up, filch.Draining, filch.Dead} {
		m.Set(filch.Member{Name: filch.NodeName("n" + string(rune('1'+i))), Standing: p})
	}
	want := func(now time.Duration, serial uint32, names ...filch.NodeName) {
		t.Helper()
		if got := s.Round(now, serial, m, "n1"); !slices.Equal(got, names) || (len(got) > 0) != (s.At() == now+SpreadAgain) {
			t.Errorf("news goes to %v, want %v; again at %s", got, names, s.At())
		}
	}
	want(time.Second, 3, "n2", "n3")
	s.Has("n2", 3)
	s.Has("n2", 2) // late
	want(2*time.Second, 3, "n3")
	s.Has("n3", 4)
	want(3*time.Second, 3)
	if want(4*time.Second, 4, "n2"); !s.Sent(4) || s.Sent(5) {
		t.Error("the serial is not that of the last round")
	}
}
