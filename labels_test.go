package filch_test

import (
	"strings"
	"testing"

	. "github.com/filch-hpc/filch"
)

func TestLabels(t *testing.T) {
	for _, c := range []struct{ in, want, wrong string }{
		{"a100,bigmem", "a100,bigmem", ""},
		{"bigmem a100, a100", "a100,bigmem", ""},
		{"", "", ""},
		{"a/b", "", `"a/b" is no label`},
		{"a\nb", "", "is no label"},
		{strings.Repeat("x", 64), "", "is no label"},
	} {
		got, err := ReadLabels(c.in)
		if string(got) != c.want || (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Text, c.wrong) {
			t.Errorf("%q: got %q, %v; want %q, %q", c.in, got, err, c.want, c.wrong)
		}
	}
	if l := Labels("a,c"); !l.Has("a") || !l.Has("c") || l.Has("") || l.Has("b") || l.Has("a,c") || l.With("b,c") != "a,b,c" {
		t.Errorf("labels of %q are wrong", l)
	}
}

func TestConstraints(t *testing.T) {
	const node = Labels("a100,bigmem,rack.7")
	for _, c := range []struct {
		in   string
		want bool
	}{
		{"a100", true},
		{"v100", false},
		{"a100&bigmem", true},
		{"a100,bigmem", true},
		{"a100&v100", false},
		{"v100|bigmem", true},
		{"v100&a100|bigmem", true}, // & before |
		{"v100&(a100|bigmem)", false},
		{"!v100", true},
		{"!(a100|v100)", false},
		{" a100 & ! v100 ", true},
		{"rack.7", true},
	} {
		read, err := ReadConstraint(c.in)
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
		}
		if got := read.Allows(node); got != c.want {
			t.Errorf("%q allows %q: %v, want %v", c.in, node, got, c.want)
		}
	}
	for _, in := range []string{"", "&", "a&", "a b", "(a", "a)", "a*2", "[a|b]", strings.Repeat("(", 20) + "a" + strings.Repeat(")", 20), strings.Repeat("a", 600)} {
		if _, err := ReadConstraint(in); err == nil {
			t.Errorf("%q is a constraint", in)
		}
		if in != "" && Constraint(in).Allows(node) {
			t.Errorf("the unreadable %q allows a node", in)
		}
	}
	if c := Constraint("a|b").And("c"); !c.Allows("a,c") || c.Allows("a") {
		t.Errorf("%q is not both", c)
	}
}

func TestAmounts(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"license=4", "license=4"},
		{"b=2,a", "a=1,b=2"},
		{"", ""},
		{"a=0", "?"},
		{"a=-1", "?"},
		{"a=x", "?"},
		{"a=1,a=2", "?"},
		{"=1", "?"},
		{"a=99999999999999999999", "?"},
	} {
		got, err := ReadAmounts(c.in)
		if err != nil {
			got = "?"
		}
		if string(got) != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
	node := Room{Slots: 8, Named: "license=4,scratch=100"}
	each := Room{Slots: 1, Named: "license=1"}
	if n := node.Fits(Room{}, each); n != 4 {
		t.Errorf("%d ranks with a license each, want 4", n)
	}
	if n := node.Fits(Room{Named: "scratch=101"}, each); n != 0 {
		t.Errorf("%d ranks beside more scratch than there is, want 0", n)
	}
	if n := node.Fits(Room{}, Room{Slots: 1, Named: "gates=1"}); n != 0 {
		t.Errorf("%d ranks with a resource that the node lacks, want 0", n)
	}
	if left := node.Minus(each.Times(3)); left.Named != "license=1,scratch=100" || !left.Holds(each) || left.Minus(each).Holds(each) {
		t.Errorf("three ranks leave %+v", left)
	}
	if r := node.Minus(each).Plus(each); r != node {
		t.Errorf("there and back: %+v", r)
	}
	if o := Amounts("license=1").OutOf(node.Named); o != "license=1/4,scratch=0/100" {
		t.Errorf("out of: %q", o)
	}
	if m := Amounts("a=1,b=5").Max("a=2,c=1"); m != "a=2,b=5,c=1" {
		t.Errorf("max: %q", m)
	}
}
