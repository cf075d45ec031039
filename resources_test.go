package filch

import (
	"testing"
	"unsafe"
)

// TestResourcesStayInRegisters holds the bound below which the compiler keeps a struct in
// registers: four words and four fields.
func TestResourcesStayInRegisters(t *testing.T) {
	if n := unsafe.Sizeof(Room{}); n > 4*unsafe.Sizeof(uintptr(0)) {
		t.Errorf("%d bytes", n)
	}
}

// TestResourcesAreAdded compares the sums in place with the sums by value.
func TestResourcesAreAdded(t *testing.T) {
	a := Room{Slots: 3, GPUs: 500, MemBytes: 7, Named: "license=2,scratch=5"}
	b := Room{Slots: 1, GPUs: 250, MemBytes: 9, Named: "license=1"}
	sum := Room{Slots: 4, GPUs: 750, MemBytes: 16, Named: "license=3,scratch=5"}
	if got := a.Plus(b); got != sum {
		t.Errorf("got %+v, want %+v", got, sum)
	}
	if got := sum.Minus(b); got != a {
		t.Errorf("got %+v, want %+v", got, a)
	}
	c := a
	c.Add(&b)
	if c != sum {
		t.Errorf("in place: got %+v, want %+v", c, sum)
	}
	if c.Sub(&b); c != a {
		t.Errorf("in place: got %+v, want %+v", c, a)
	}
}

// TestHoldsBeside compares the answer with that of the rest.
func TestHoldsBeside(t *testing.T) {
	all := Room{Slots: 4, GPUs: 2000, MemBytes: 8, Named: "license=2"}
	used := Room{Slots: 3, GPUs: 1500, MemBytes: 9, Named: "license=1"}
	for _, each := range []Room{
		{}, {Slots: 1}, {Slots: 2}, {GPUs: 500}, {GPUs: 501}, {MemBytes: 1}, {Named: "license=1"}, {Named: "license=2"}, {Slots: 1, Named: "disk=1"},
	} {
		if got, want := all.HoldsBeside(&used, &each), all.Minus(used).Holds(each); got != want {
			t.Errorf("%+v: got %t, want %t", each, got, want)
		}
	}
}
