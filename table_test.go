package filch_test

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

func TestTableUsesNoNumberTwice(t *testing.T) {
	var tab filch.Table[string]
	a, b := tab.Add("a"), tab.Add("b")
	tab.Drop(a)
	tab.Drop(a)
	c := tab.Add("c")
	if tab.Find(a) != nil || *tab.Find(b) != "b" || *tab.Find(c) != "c" || c == a || tab.Len() != 2 {
		t.Errorf("numbers %d, %d, %d; %d values, want 2", a, b, c, tab.Len())
	}
	var got strings.Builder
	for id, v := range tab.All() {
		if tab.Find(id) != v {
			t.Errorf("number %d is of another value", id)
		}
		got.WriteString(*v)
	}
	if got.String() != "cb" || tab.Find(0) != nil || tab.Find(1<<63) != nil {
		t.Errorf("values %q, want cb", got.String())
	}
}
