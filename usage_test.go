package filch

import (
	"testing"
	"time"
)

func TestUsagesAddUp(t *testing.T) {
	a := Usage{User: time.Second, System: 2 * time.Second, PeakBytes: 4 << 20, AtMost: true}
	b := Usage{User: 3 * time.Second, PeakBytes: 9 << 20}
	even := Usage{PeakBytes: 4 << 20}
	for _, c := range []struct {
		name       string
		a, b, want Usage
	}{
		{"nothing", Usage{}, Usage{}, Usage{}},
		{"one", Usage{}, a, a},
		{"larger-peak", a, b, Usage{User: 4 * time.Second, System: 2 * time.Second, PeakBytes: 9 << 20}},
		{"exact-peak-of-the-same-size", a, even, Usage{User: time.Second, System: 2 * time.Second, PeakBytes: 4 << 20}},
		{"two-bounds", a, a, Usage{User: 2 * time.Second, System: 4 * time.Second, PeakBytes: 4 << 20, AtMost: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.a.Plus(c.b); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if got := c.b.Plus(c.a); got != c.want {
				t.Errorf("the other way round: got %+v, want %+v", got, c.want)
			}
		})
	}
}
