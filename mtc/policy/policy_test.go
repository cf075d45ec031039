package policy

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

func TestExcessOfThePaper(t *testing.T) {
	if got := excess(5000, 1000.0/10, 30*time.Second); got != 2000 {
		t.Errorf("%d of 5000 tasks move, the paper says 2000", got)
	}
	if got := excess(5000, 1000.0/10, 50*time.Second); got != 0 {
		t.Errorf("%d move although all are done in time", got)
	}
}

func TestPlaceIsAlgorithm1(t *testing.T) {
	const mb = 1 << 20
	in := func(list ...Input) []Input { return list }
	small, here, there := in(Input{0, "a", 100, nil}), in(Input{0, "me", 100 * mb, nil}, Input{1, "a", mb, nil}), in(Input{0, "me", mb, nil}, Input{1, "a", 100 * mb, nil})
	many := make([]Input, 30)
	for i := range many {
		many[i] = Input{int32(i), "a", 5 * mb, nil}
	}
	for _, c := range []struct {
		name   string
		policy Policy
		inputs []Input
		length time.Duration
		want   Placement
		where  filch.NodeName
	}{
		{"mlb shares everything", Policy{Kind: MLB}, there, time.Second, ToShared, ""},
		{"mdl keeps the smallest input", Policy{Kind: MDL}, small, time.Second, ToPeer, "a"},
		{"mdl shares what has no input", Policy{Kind: MDL}, nil, time.Second, ToShared, ""},
		{"rlds shares what is small", Policy{Kind: RLDS, Threshold: 10 * mb}, small, time.Second, ToShared, ""},
		{"rlds keeps what is large and here", Policy{Kind: RLDS, Threshold: 10 * mb}, here, time.Second, ToDedicated, ""},
		{"rlds sends what is large and there", Policy{Kind: RLDS, Threshold: 10 * mb}, there, time.Second, ToPeer, "a"},
		{"a long task may fetch more", Policy{Kind: RLDS, Threshold: 10 * mb}, there, time.Minute, ToShared, ""},
		{"a short one less", Policy{Kind: RLDS, Threshold: 10 * mb}, in(Input{0, "a", 2 * mb, nil}), 100 * time.Millisecond, ToPeer, "a"},
		{"many small pieces are shared", Policy{Kind: RLDS, Threshold: 10 * mb}, many, time.Second, ToShared, ""},
		{"flds places as rlds", Policy{Kind: FLDS, Threshold: 10 * mb}, here, time.Second, ToDedicated, ""},
	} {
		to, where := c.policy.Place(c.inputs, "me", c.length)
		if to != c.want || where != c.where {
			t.Errorf("%s: got %d %q, want %d %q", c.name, to, where, c.want, c.where)
		}
	}
}

func TestReadPolicy(t *testing.T) {
	for text, want := range map[string]Policy{
		"mlb":                                  {},
		"mdl":                                  {Kind: MDL},
		"rlds:threshold=1500000":               {Kind: RLDS, Threshold: 1.5e6},
		"flds:threshold=0.5,tt=2s,guess=200ms": {Kind: FLDS, Threshold: 0.5, LocalTime: 2 * time.Second, Guess: 200 * time.Millisecond},
		"mlb:victims=dvs":                      {Victims: Mesh},
		"auto":                                 {Kind: Auto},
		"auto:guess=1ms,balance=give":          {Kind: Auto, Guess: time.Millisecond, Balance: ByGiving},
		"flds:tt=1m0s,victims=near":            {Kind: FLDS, LocalTime: time.Minute, Victims: Hierarchical},
		"flds:tt=1m0s":                         {Kind: FLDS, LocalTime: time.Minute},
	} {
		if got, err := Read(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s reads as %+v (%s), %v", text, got, got, err)
		}
	}
	if got, err := Read("rlds:threshold=12.5M"); err != nil || got.Threshold != 12.5e6 {
		t.Errorf("12.5M reads as %v, %v", got.Threshold, err)
	}
	for _, bad := range []string{
		"", "lru", "mlb:threshold=1M", "rlds:", "rlds:tt=1s", "rlds:threshold=-1", "rlds:threshold=1e999",
		"mlb:victims=", "mlb:balance=push", "auto:tt=1s", "mlb,victims=all", "flds:tt=0s", "flds:tt=soon", "flds:guess", "rlds:threshold=M", "mdl:guess=1s", "flds:threshold=NaN",
	} {
		if got, err := Read(bad); err == nil {
			t.Errorf("%q reads as %+v", bad, got)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	for _, k := range []Kind{MLB, MDL, RLDS, FLDS, ADAGE, Auto} {
		if got, err := ParseKind(k.String()); err != nil || got != k {
			t.Errorf("%v reads as %v, %v", k, got, err)
		}
	}
	if _, err := ParseKind("flws"); err == nil {
		t.Error("flws is taken for a policy")
	}
}

// Without a setting, a task is dedicated whose input takes more than a tenth of 10 Gb/s, which
// is 125 MB for a task of a second (MATRIX v2, III.B and IV).
func TestThresholdIsATenthOfTheNetwork(t *testing.T) {
	p := Policy{Kind: RLDS}
	for bytes, want := range map[int64]Placement{125_000_000: ToShared, 125_000_001: ToDedicated} {
		if got, _ := p.Place([]Input{{Node: "n1", Bytes: bytes}}, "n1", time.Second); got != want {
			t.Errorf("a task of 1 s with %d bytes here is placed %v, want %v", bytes, got, want)
		}
	}
}

// TestThievesOfAPolicy: thieves choose victims as usual unless the policy names a choice; where
// busy nodes give tasks, nobody steals.
func TestThievesOfAPolicy(t *testing.T) {
	for text, want := range map[string]Victims{
		"auto": Hierarchical, "mlb": Hierarchical, "adage": Hierarchical, "auto:balance=both": Hierarchical,
		"auto:victims=dvs": Mesh, "mdl:victims=random": Random, "flds:victims=none": NoStealing,
		"auto:balance=give": NoStealing, "mlb:victims=leapfrog,balance=give": NoStealing,
	} {
		p, err := Read(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Thieves(Hierarchical); got != want {
			t.Errorf("with %s thieves choose their victims by %q, want %q", text, got, want)
		}
	}
}
