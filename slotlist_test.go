package filch

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

func TestSlotsOf(t *testing.T) {
	var odd []int32
	for n := int32(1); n < 100; n += 2 {
		odd = append(odd, n)
	}
	for _, c := range []struct {
		list []int32
		text string
	}{
		{nil, ""},
		{[]int32{0}, "0"},
		{[]int32{8, 2, 0, 1, 3}, "0-3,8"},
		{[]int32{63, 64, 65, 200}, "63-65,200"},
		{odd, "1,3,5,7,9,11,13,15,17,19,21,23"},
	} {
		before := slices.Clone(c.list)
		s := SlotsOf(c.list)
		if s.String() != c.text || !slices.Equal(before, c.list) || s.IsZero() != (c.text == "") {
			t.Errorf("%v: got %q, want %q", before, s, c.text)
		}
		if again, ok := ParseSlots(c.text); !ok || !reflect.DeepEqual(again, s) {
			t.Errorf("%q: got %+v, want %+v", c.text, again, s)
		}
	}
	if n := testing.AllocsPerRun(100, func() { SlotsOf([]int32{4, 5}) }); n > 0 {
		t.Errorf("%v allocations for neighbors", n)
	}
}

func TestSlotsThatMakeNoSense(t *testing.T) {
	for _, text := range []string{"x", ",", "1,", "2,1", "1,2", "3-1", "-1", "1-", "0-9999999", "99999999999", "0,2,4,6,8,10,12,14,16,18,20,22,24"} {
		if s, ok := ParseSlots(text); ok {
			t.Errorf("%q is read as %v", text, s)
		}
	}
}

func TestSlotsAsJSON(t *testing.T) {
	type row struct {
		Slots Slots `json:"slots,omitzero"`
	}
	for text, r := range map[string]row{`{}`: {}, `{"slots":"0-3,8"}`: {SlotsOf([]int32{0, 1, 2, 3, 8})}} {
		b, err := json.Marshal(r)
		if err != nil || string(b) != text {
			t.Errorf("got %s, %v, want %s", b, err, text)
		}
		var again row
		if err := json.Unmarshal([]byte(text), &again); err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%s: got %+v, %v", text, again, err)
		}
	}
	var bad row
	if json.Unmarshal([]byte(`{"slots":"3,1"}`), &bad) == nil {
		t.Error("slots out of order are read")
	}
}

func FuzzParseSlots(f *testing.F) {
	f.Add("0-3,8")
	f.Add("1048576")
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := ParseSlots(text)
		if !ok {
			return
		}
		var list []int32
		for r := range s.Runs() {
			if r.Count < 1 || r.First < 0 || r.First+r.Count-1 > MaxSlot {
				t.Fatalf("%q has the run %+v", text, r)
			}
			for n := range r.Count {
				list = append(list, r.First+n)
			}
		}
		if again := SlotsOf(list); !reflect.DeepEqual(again, s) {
			t.Errorf("%q: got %+v, want %+v", text, again, s)
		}
	})
}
