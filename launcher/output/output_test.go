package output_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher/output"
)

type cutPiece struct {
	text    string
	partial bool
}

func cutAll(raw bool, parts ...string) []cutPiece {
	var got []cutPiece
	c := output.Cutter{Raw: raw}
	emit := func(b []byte, partial bool) { got = append(got, cutPiece{string(b), partial}) }
	for _, p := range parts {
		c.Add([]byte(p), emit)
	}
	c.Flush(emit)
	return got
}

func TestCutter(t *testing.T) {
	long := strings.Repeat("x", output.LineMax)
	for name, c := range map[string]struct {
		raw  bool
		in   []string
		want []cutPiece
	}{
		"whole-lines-together": {false, []string{"a\nb\n"}, []cutPiece{{"a\nb\n", false}}},
		"joined":               {false, []string{"a", "b", "\nc\nd"}, []cutPiece{{"ab\n", false}, {"c\n", false}, {"d", true}}},
		"nothing":              {false, []string{"", ""}, nil},
		"empty-lines":          {false, []string{"\n\n"}, []cutPiece{{"\n\n", false}}},
		"long-line-is-cut":     {false, []string{long + "y\n"}, []cutPiece{{long + "y\n", false}}},
		"long-without-end":     {false, []string{long, "yy", "\n"}, []cutPiece{{long, true}, {"yy\n", false}}},
		"raw":                  {true, []string{"a", "b\n"}, []cutPiece{{"a", true}, {"b\n", false}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := cutAll(c.raw, c.in...)
			if len(got) != len(c.want) {
				t.Fatalf("got %.200v, want %.200v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("piece %d: got %.100v, want %.100v", i, got[i], c.want[i])
				}
			}
		})
	}
}

func FuzzCutter(f *testing.F) {
	f.Add([]byte("a\nbc"), uint8(2), false)
	f.Fuzz(func(t *testing.T, b []byte, step uint8, raw bool) {
		c := output.Cutter{Raw: raw}
		var got []byte
		emit := func(p []byte, partial bool) {
			if len(p) == 0 || partial == (p[len(p)-1] == '\n') {
				t.Errorf("piece %q is marked partial %v", p, partial)
			}
			got = append(got, p...)
		}
		for rest := b; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			c.Add(rest[:n], emit)
			rest = rest[n:]
			if c.Held() > output.LineMax {
				t.Fatalf("holds %d bytes", c.Held())
			}
		}
		c.Flush(emit)
		if !bytes.Equal(got, b) {
			t.Errorf("got %q, want %q", got, b)
		}
	})
}

func TestLabel(t *testing.T) {
	for _, c := range []struct {
		size  int32
		width int
	}{{0, 1}, {1, 1}, {10, 1}, {11, 2}, {100, 2}, {101, 3}} {
		if got := output.Width(c.size); got != c.width {
			t.Errorf("width of %d ranks: got %d, want %d", c.size, got, c.width)
		}
	}
	if got := string(output.AppendLabel(nil, 7, 3)); got != "  7: " {
		t.Errorf("got %q", got)
	}
	for in, want := range map[string]string{
		"":          "",
		"a\n":       "1: a\n",
		"a\nb\n":    "1: a\n1: b\n",
		"\n":        "1: \n",
		"no end":    "1: no end\n",
		"a\nno end": "1: a\n1: no end\n",
	} {
		if got := string(output.AppendLabeled(nil, 1, 1, []byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestExpand(t *testing.T) {
	p := output.Place{Job: 42, Name: "sim", User: "ann", Rank: 3, Index: 1, Node: "n2.cluster.example"}
	for pattern, want := range map[string]string{
		"out":               "out",
		"o.%t":              "o.3",
		"%4t-%2n":           "0003-01",
		"%N":                "n2",
		"%4N":               "n2",
		"%j.%J.%s.%A":       "42.42.0.0.42",
		"%5j":               "00042",
		"%u/%x":             "ann/sim",
		"100%%":             "100%",
		"%q%":               "%q%",
		"%5":                "%5",
		"%5q":               "%5q",
		"%99t":              "0000000003",
		`\%t`:               "%t",
		`a\\b%t`:            `a\b%t`,
		`end\`:              "end",
		"%99999999999999t":  "0000000003",
		"%t%t":              "33",
		"dir.%n/%t.of.%%t%": "dir.1/3.of.%t%",
		"%a.%3a":            "%a.%3a",
	} {
		if got := output.Expand(pattern, p); got != want {
			t.Errorf("%s: got %q, want %q", pattern, got, want)
		}
	}
	p.Task = "17"
	if got := output.Expand("%A_%a.%4a", p); got != "42_17.0017" {
		t.Errorf("of a task: got %q", got)
	}
}

func TestPerTask(t *testing.T) {
	for pattern, want := range map[string]bool{
		"": false, "x.%N": false, "x.%%t": false, `x.\%t`: false, "x.%t": true, "x.%03a": true,
	} {
		if got := output.PerTask(pattern, false); got != want {
			t.Errorf("%q: got %v", pattern, got)
		}
	}
}

// A job's name may be from somebody else's file: what is made of it stays in the
// folder that the pattern names.
func TestExpandKeepsANameInTheFolder(t *testing.T) {
	for name, want := range map[string]string{
		"plain":            "out/plain.log",
		"a/b":              "out/a_b.log",
		"../../etc/passwd": "out/.._.._etc_passwd.log",
		"/etc/passwd":      "out/_etc_passwd.log",
		"..":               "out/__.log",
		".hidden":          "out/.hidden.log",
	} {
		if got := output.Expand("out/%x.log", output.Place{Name: name}); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
	for pattern, want := range map[string]string{"%x/log": "__/log", ".%x/log": ".__/log", "%x": "__"} {
		if got := output.Expand(pattern, output.Place{Name: ".."}); got != want {
			t.Errorf("%s: got %s, want %s", pattern, got, want)
		}
	}
}

func TestSideOf(t *testing.T) {
	for pattern, want := range map[string]output.Side{
		"":        output.SideClient,
		"x.%j":    output.SideClient,
		"x.%%t":   output.SideClient,
		`x.\%t`:   output.SideClient,
		"x.%3t":   output.SidePerRank,
		"x.%N.%t": output.SidePerRank,
		"x.%n":    output.SidePerNode,
		"x.%N":    output.SidePerNode,
	} {
		if got := output.SideOf(pattern); got != want {
			t.Errorf("%q: got %v, want %v", pattern, got, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add(`a%4t%%\`)
	f.Fuzz(func(t *testing.T, pattern string) {
		got := output.Expand(pattern, output.Place{Rank: 1})
		if !strings.ContainsAny(pattern, `%\`) && got != pattern {
			t.Errorf("%q became %q", pattern, got)
		}
		output.SideOf(pattern)
	})
}

// Values in the place of replacement strings stay as they are when the pattern is expanded.
func TestLiteral(t *testing.T) {
	for _, c := range []struct {
		pattern, value, want string
		ok                   bool
	}{
		{"out.{}", "a%t", "out.a%t", true},
		{"out.{}", `a\b`, `out.a\b`, true},
		{"%t.{}", "a%%", "3.a%%", true},
		{"%t.{}", `a\b`, "", false},
		{`\%t.{}`, `a\b%t`, `%t.a\b%t`, true},
	} {
		safe, ok := output.Literal(c.pattern, []string{c.value})
		if ok != c.ok {
			t.Errorf("Literal(%q, %q): ok is %v, want %v", c.pattern, c.value, ok, c.ok)
		}
		if !ok {
			continue
		}
		got := output.Expand(strings.Replace(c.pattern, "{}", safe[0], 1), output.Place{Rank: 3})
		if got != c.want {
			t.Errorf("Literal(%q, %q) makes %q, want %q", c.pattern, c.value, got, c.want)
		}
	}
}

func TestWithName(t *testing.T) {
	for _, c := range [][3]string{
		{"%x.out", "sim-{}", "sim-{}.out"},
		{"%%x.%t", "sim", "%%x.%t"},
		{"d/%x", "a/b%t", "d/a_b%%t"},
		{`\%x`, "sim", `\%x`},
		{"plain", "sim", "plain"},
	} {
		if got := output.WithName(c[0], c[1]); got != c[2] {
			t.Errorf("WithName(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
