package spec_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/spec"
)

func join(names []filch.NodeName) string {
	var s []string
	for _, n := range names {
		s = append(s, string(n))
	}
	return strings.Join(s, " ")
}

func TestHosts(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"n1", "n1"},
		{"n1,n2,n1", "n1 n2"},
		{"n[1-3,7]", "n1 n2 n3 n7"},
		{"n[0-10]", "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10"},
		{"n[08-11]", "n08 n09 n10 n11"},
		{"n[008-11]", "n008 n009 n010 n011"},
		{"a[1-2]b[3-4],c", "a1b3 a1b4 a2b3 a2b4 c"},
		{"10.0.0.[9-10]", "10.0.0.9 10.0.0.10"},
		{"n[0,00,000]", "n0 n00 n000"},
		{"n[00-02]", "n00 n01 n02"},
		{"n[098-100]", "n098 n099 n100"},
		{"n[08-10]m[9-10]", "n08m9 n08m10 n09m9 n09m10 n10m9 n10m10"},
		{"n[9-11,09-11]x", "n9x n10x n11x n09x"},
		{"[1-2]", "1 2"},
		{"[1-2][3-4],n1", "13 14 23 24 n1"},
		{"n[2-3,1-2]", "n2 n3 n1"},
		{"n[999999999999998-999999999999999]", "n999999999999998 n999999999999999"},
		{"r[1-2]c[1-2]n[1-2]", "r1c1n1 r1c1n2 r1c2n1 r1c2n2 r2c1n1 r2c1n2 r2c2n1 r2c2n2"},
	} {
		got, err := spec.Hosts(c.in)
		if err != nil || join(got) != c.want {
			t.Errorf("Hosts(%q) = %q, %v, want %q", c.in, join(got), err, c.want)
		}
	}
}

func TestHostsRefused(t *testing.T) {
	for _, in := range []string{
		"", ",", "n1,", "n[", "n[1", "n]1[", "n[]", "n[1-]", "n[-1]", "n[3-1]", "n[1,,2]", "n[a-b]", "n[[1-2]]",
		"n[1-9223372036854775807]", "n[1-99999999999999999999]", "n[0-99999][0-99999]", "n[1-100000]", "n%d", "n 1",
		"n[1-2]a[1-2]b[1-2]c[1-2]", "n\n1", "n\x1b[2J", strings.Repeat("n", 64), "n[1-010]",
		strings.Repeat("n[1-60000],", 3) + "x", "n]", "n[1-2]]", "n[1]x]y", "n],m", "n[1-60000]" + strings.Repeat("x", 1<<19),
		"n[1000000000000000]", "n[8-12]" + strings.Repeat("y", 61),
	} {
		if got, err := spec.Hosts(in); err == nil {
			t.Errorf("Hosts(%q) = %d names, want an error", in, len(got))
		} else if strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("Hosts(%q): the error is not one clean line: %q", in, err)
		}
	}
}

// A refusal says what is wrong and where.
func TestHostsRefusalTexts(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "a node list of 0 bytes"},
		{"n 1", `node list "n 1": no node name holds ' '`},
		{"n[1", `node list "n[1": a [ without its ]`},
		{"n]1", `node list "n]1": a ] without its [`},
		{"n[a-b]", `node list "n[a-b]": "a-b" is not a range of numbers`},
		{"n[3-1]", `node list "n[3-1]": the range 3-1 goes down`},
		{"n[1-65536],m", `node list "n[1-65536],m" names more than 65536 nodes`},
		{"a[1]b[1]c[1]d[1]", `node list "a[1]b[1]c[1]d[1]": more than 3 [...] in one name`},
		{"n1,,n2", `node list "n1,,n2": "" is not a node name`},
	} {
		if _, err := spec.Hosts(c.in); err == nil || err.Error() != c.want {
			t.Errorf("Hosts(%q): got %v, want %s", c.in, err, c.want)
		}
	}
	if got, err := spec.Hosts("n[1-65536]"); err != nil || len(got) != spec.MaxHosts {
		t.Errorf("as many as there may be: got %d, %v", len(got), err)
	}
}

func TestFormatHosts(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"n1", "n1"},
		{"n7 n3 n1 n2", "n[1-3,7]"},
		{"n9 n10 n8 n11", "n[8-11]"},
		{"n09 n10 n08 n11", "n[08-11]"},
		{"n8 n9 n08", "n[8-9],n08"},
		{"a b c1", "a,b,c1"},
		{"node-a n2-1 n2-2 n3-1", "n2-[1-2],n3-1,node-a"},
		{"n1 n1 n1", "n1"},
	} {
		var names []filch.NodeName
		for n := range strings.FieldsSeq(c.in) {
			names = append(names, filch.NodeName(n))
		}
		if got := spec.FormatHosts(names); got != c.want {
			t.Errorf("FormatHosts(%s) = %q, want %q", c.in, got, c.want)
		}
	}
}

// What is written reads back as the same set, whatever the names.
func TestFormatHostsReadsBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var names []filch.NodeName
		for range 1 + rng.IntN(12) {
			var name strings.Builder
			name.WriteString([...]string{"n", "m-", "r1c", ""}[rng.IntN(4)])
			for range 1 + rng.IntN(3) {
				name.WriteString(string(rune('0' + rng.IntN(3))))
			}
			names = append(names, filch.NodeName(name.String()+[...]string{"", "", "x"}[rng.IntN(3)]))
		}
		s := spec.FormatHosts(names)
		got, err := spec.Hosts(s)
		if err != nil {
			t.Fatalf("Hosts(%q), written from %s: %v", s, join(names), err)
		}
		slices.Sort(got)
		slices.Sort(names)
		if want := slices.Compact(names); !slices.Equal(got, want) {
			t.Fatalf("%q reads back as %s, want %s", s, join(got), join(want))
		}
	}
}

func FuzzHosts(f *testing.F) {
	for _, s := range []string{"n[1-3,7]", "a[01-10]b[0-10]", "n[1-9223372036854775807]", "x,y[", "n[1-3]]", "[0-10][08-11]", "n[1,1]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := spec.Hosts(s)
		if err != nil {
			return
		}
		if len(names) == 0 || len(names) > spec.MaxHosts {
			t.Fatalf("Hosts(%q) gave %d names", s, len(names))
		}
		again, err := spec.Hosts(spec.FormatHosts(names))
		if err != nil || len(again) != len(names) {
			t.Fatalf("Hosts(%q): %d names, written and read again %d, %v", s, len(names), len(again), err)
		}
	})
}
