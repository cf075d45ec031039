package spec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
)

func TestCount(t *testing.T) {
	for in, want := range map[string]int32{"0": 0, "1": 1, "007": 7, "2k": 2048, "1m": 1 << 20, "2147483647": 1<<31 - 1} {
		if got, err := spec.Count(in); err != nil || got != want {
			t.Errorf("Count(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "k", "-1", "+1", "1.5", "0x10", "1kk", "2147483648", "9999999999999", "4096m", " 1", "1 "} {
		if got, err := spec.Count(in); err == nil {
			t.Errorf("Count(%q) = %d, want an error", in, got)
		}
	}
}

func TestNodes(t *testing.T) {
	for _, c := range []struct {
		in          string
		least, most int32
	}{{"1", 1, 1}, {"2-4", 2, 4}, {"4-4", 4, 4}, {"1k", 1024, 1024}} {
		least, most, err := spec.Nodes(c.in)
		if err != nil || least != c.least || most != c.most {
			t.Errorf("Nodes(%q) = %d, %d, %v, want %d, %d", c.in, least, most, err, c.least, c.most)
		}
		if c.in != "1k" && c.in != "4-4" && spec.FormatNodes(least, most) != c.in {
			t.Errorf("FormatNodes(%d, %d) = %q, want %q", least, most, spec.FormatNodes(least, most), c.in)
		}
	}
	for _, in := range []string{"", "0", "-", "-3", "3-", "4-2", "0-2", "a", "1-2-3", "1,2"} {
		if least, most, err := spec.Nodes(in); err == nil {
			t.Errorf("Nodes(%q) = %d, %d, want an error", in, least, most)
		}
	}
}

func TestTime(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"5": 5 * time.Minute, "0": 0, "90": 90 * time.Minute, "0:01": time.Second, "1:30": 90 * time.Second,
		"0:90": 90 * time.Second, "2:00:00": 2 * time.Hour, "1-0": 24 * time.Hour, "1-12": 36 * time.Hour,
		"1-2:30": 26*time.Hour + 30*time.Minute, "1-02:03:04": 26*time.Hour + 3*time.Minute + 4*time.Second,
		"UNLIMITED": 0, "infinite": 0, "-1": 0, "0-0:0:1": time.Second, "2s": 2 * time.Second, "1h30m": 90 * time.Minute,
	} {
		if got, err := spec.Time(in); err != nil || got != want {
			t.Errorf("Time(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", ":", "1:", ":1", "1:2:3:4", "1-", "-2", "1-2-3", "a", "1x", "1.5", "1-1:1:1:1", "+1", "99999999999", "9999-0"} {
		if got, err := spec.Time(in); err == nil {
			t.Errorf("Time(%q) = %v, want an error", in, got)
		}
	}
}

func TestSeconds(t *testing.T) {
	for in, want := range map[string]time.Duration{"0": 0, "1": time.Second, "0.5": time.Second / 2, "500ms": time.Second / 2, "2m": 2 * time.Minute, "1h30m": 90 * time.Minute, "1:30": 90 * time.Second, "1:00:00": time.Hour, "1-0": 24 * time.Hour} {
		if got, err := spec.Seconds(in); err != nil || got != want {
			t.Errorf("Seconds(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-1", "x", "NaN", "Inf", "1e300", "0x1p4", "-2s", "1_000", "1:2:3:4", "s", "9999-0"} {
		if got, err := spec.Seconds(in); err == nil {
			t.Errorf("Seconds(%q) = %v, want an error", in, got)
		}
	}
}

func TestMemory(t *testing.T) {
	for in, want := range map[string]int64{
		"500": 500 << 20, "1K": 1 << 10, "1k": 1 << 10, "4G": 4 << 30, "4GB": 4 << 30, "4GiB": 4 << 30, "2t": 2 << 40, "0": 0, "3M": 3 << 20, "3MB": 3 << 20,
	} {
		if got, err := spec.Memory(in); err != nil || got != want {
			t.Errorf("Memory(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "G", "-1", "1.5G", "4P", "1GG", "99999999999T", "9223372036854775807", "B", "iB"} {
		if got, err := spec.Memory(in); err == nil {
			t.Errorf("Memory(%q) = %d, want an error", in, got)
		}
	}
	for want, n := range map[string]int64{"0": 0, "1K": 1, "500M": 500 << 20, "4G": 4 << 30, "1536K": 1536 << 10, "2T": 2 << 40} {
		if got := spec.FormatMemory(n); got != want {
			t.Errorf("FormatMemory(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestSignal(t *testing.T) {
	for in, want := range map[string]int32{"9": 9, "KILL": 9, "SIGKILL": 9, "sigusr1": 10, "term": 15, "64": 64, "CHLD": 17} {
		if got, err := spec.Signal(in); err != nil || got != want {
			t.Errorf("Signal(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "65", "SIG", "-9", "SIGFOO", "9x"} {
		if got, err := spec.Signal(in); err == nil {
			t.Errorf("Signal(%q) = %d, want an error", in, got)
		}
	}
	if got := spec.SignalName(9) + spec.SignalName(40); got != "SIGKILL40" {
		t.Errorf("SignalName: got %q", got)
	}
}

func TestWarning(t *testing.T) {
	for _, c := range []struct {
		in     string
		sig    int32
		before time.Duration
	}{{"USR1", 10, time.Minute}, {"USR1@5", 10, 5 * time.Second}, {"10@0", 10, 0}, {"B:TERM@300", 15, 300 * time.Second}, {"R:2", 2, time.Minute}, {"USR1@90s", 10, 90 * time.Second}, {"USR1@1m", 10, time.Minute}, {"B:10@1h30m", 10, 90 * time.Minute}, {"USR1@2:00", 10, 2 * time.Minute}} {
		sig, before, err := spec.Warning(c.in)
		if err != nil || sig != c.sig || before != c.before {
			t.Errorf("Warning(%q) = %d, %v, %v, want %d, %v", c.in, sig, before, err, c.sig, c.before)
		}
	}
	for _, in := range []string{"", "@5", "USR1@", "USR1@-1", "USR1@99999", "X:USR1", "USR1@5x", "USR1@", "USR1@19h", "USR1@0.5"} {
		if _, _, err := spec.Warning(in); err == nil {
			t.Errorf("Warning(%q): want an error", in)
		}
	}
}

func TestLayout(t *testing.T) {
	for _, c := range []struct {
		in     string
		layout launcher.Layout
		plane  int32
		order  string
	}{
		{"block", launcher.LayoutBlock, 0, ""},
		{"cyclic", launcher.LayoutCyclic, 0, ""},
		{"plane=4", launcher.LayoutPlane, 4, ""},
		{"plane=4:fcyclic", launcher.LayoutPlane, 4, "fcyclic"},
		{"block,Pack", launcher.LayoutPlane, launcher.MaxRanks, ""},
		{"block:cyclic,Pack", launcher.LayoutPlane, launcher.MaxRanks, "cyclic"},
		{"cyclic:block,NoPack", launcher.LayoutCyclic, 0, ""},
		{"Block:Cyclic", launcher.LayoutBlock, 0, "cyclic"},
		{"*:block", launcher.LayoutAuto, 0, ""},
		{"*:cyclic:fcyclic", launcher.LayoutAuto, 0, "cyclic"},
	} {
		layout, plane, order, err := spec.Layout(c.in)
		if err != nil || layout != c.layout || plane != c.plane || order != c.order {
			t.Errorf("Layout(%q) = %d, %d, %q, %v, want %d, %d, %q", c.in, layout, plane, order, err, c.layout, c.plane, c.order)
		}
	}
	for _, in := range []string{"", "plane", "plane=0", "plane=x", "arbitrary", "roundrobin", "block:foo", "block:block:foo", "block,foo"} {
		if _, _, _, err := spec.Layout(in); err == nil {
			t.Errorf("Layout(%q): want an error", in)
		}
	}
}

func TestCPUBind(t *testing.T) {
	for in, want := range map[string]string{
		"none": "none [] false", "verbose,none": "none [] true", "v,cores": "cores [] true", "rank": "rank [] false",
		"threads": "threads [] false", "core": "cores [] false", "verbose,sockets": "sockets [] true", "ldom": "ldoms [] false", "map_cpu:2047": "map_cpu [2047] false",
		"map_cpu:0,2": "map_cpu [0 2] false", "verbose,mask_cpu:0x3,C": "mask_cpu [0x3 C] true", "verbose": " [] true", "quiet": " [] false",
	} {
		b, err := spec.CPUBind(in)
		if got := b.Kind + " [" + strings.Join(b.List, " ") + "] " + map[bool]string{true: "true", false: "false"}[b.Verbose]; err != nil || got != want {
			t.Errorf("CPUBind(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"rank_ldom", "map_ldom:0", "mask_ldom:1", "boards", "sockets,cores", "map_cpu:", "map_cpu:a", "map_cpu:-1", "mask_cpu:0", "mask_cpu:xyz", "cores,none", "nonsense", "map_cpu:99999"} {
		if b, err := spec.CPUBind(in); err == nil {
			t.Errorf("CPUBind(%q) = %v, want an error", in, b)
		}
	}
}

func TestExport(t *testing.T) {
	env := []string{"HOME=/h", "A=1", "SLURM_JOB_ID=3", "PMI_RANK=1", "OMPI_COMM_WORLD_RANK=0", "FILCH_RANK=2", "FILCH_LOCAL=/l", "PMIX_X=1", "odd", "E="}
	for rule, want := range map[string]string{
		"ALL":              "HOME=/h A=1 FILCH_LOCAL=/l E=",
		"NONE":             "",
		"NIL":              "",
		"NONE,A=b,E":       "E= A=b",
		"NIL,A":            "A=1",
		"A":                "A=1",
		"ALL,A=2,B=x y":    "HOME=/h FILCH_LOCAL=/l E= A=2 B=x y",
		"A,B='1,2',C=3":    "A=1 B=1,2 C=3",
		"ALL,SLURM_JOB_ID": "HOME=/h A=1 SLURM_JOB_ID=3 FILCH_LOCAL=/l E=",
		`X="a,b",HOME`:     "HOME=/h X=a,b",
		"B=it's":           "B=it's",
	} {
		e, err := spec.ReadExport(rule)
		if got := strings.Join(e.Filter(env), " "); err != nil || got != want {
			t.Errorf("export %q gives %q, %v, want %q", rule, got, err, want)
		}
	}
	if _, err := spec.ReadExport("ALL,=x"); err == nil {
		t.Errorf("export of a variable without a name: want an error")
	}
}

func TestMultiProg(t *testing.T) {
	const silly = "# a comment\n4-6       hostname\n1,7       echo  task:%t\n0,2-3     echo  offset:%o\n"
	programs, err := spec.MultiProg(silly, 8, []string{"more"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range programs {
		got = append(got, spec.FormatRanks(p.Ranks)+" "+strings.Join(p.Argv, " "))
	}
	if want := "4-6 hostname more|1,7 echo task:%t more|0,2-3 echo offset:%o more"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", strings.Join(got, "|"), want)
	}
	programs, err = spec.MultiProg("1 a 'b  c' d\\\n e\n* x\n", 4, nil)
	if err != nil || len(programs) != 2 || strings.Join(programs[0].Argv, "|") != "a|b  c|d|e" || spec.FormatRanks(programs[1].Ranks) != "0,2-3" {
		t.Errorf("quotes, a joined line and *: got %v, %v", programs, err)
	}
	for text, want := range map[string]string{
		"0 a\n":        "rank 1 of 0-1 has no program",
		"0-1 a\n1 b\n": "line 2: rank 1 has a program already",
		"0-5 a\n":      "line 1: rank 5 is beyond the last, 1",
		"* a\n1 b\n":   "line 2: nothing may follow the * of line 1",
		"0-1\n":        `line 1: ranks "0-1" without a program`,
		"x a\n":        `line 1: "x" is not a list of ranks`,
		"0-1 'a\n":     "line 1: a quote without its end",
		"1-0 a\n":      `line 1: "1-0" is not a list of ranks`,
		"\n\n":         "rank 0 of 0-1 has no program",
	} {
		if _, err := spec.MultiProg(text, 2, nil); err == nil || err.Error() != want {
			t.Errorf("MultiProg(%q): got %v, want %s", text, err, want)
		}
	}
}

// srun counts the offset of a rank of * from rank 0.
func TestMultiProgStar(t *testing.T) {
	programs, err := spec.MultiProg("0 echo %o\n* echo %t:%o\n", 3, nil)
	if err != nil || strings.Join(programs[0].Argv, " ") != "echo %o" || strings.Join(programs[1].Argv, " ") != "echo %t:%t" {
		t.Errorf("got %v, %v", programs, err)
	}
}

func FuzzMultiProg(f *testing.F) {
	f.Add("4-6 hostname\n1,7 echo task:%t\n* x\n", int32(8))
	f.Add("0 'a b' c\\\nd\n", int32(1))
	f.Fuzz(func(t *testing.T, text string, size int32) {
		size = 1 + size&1023
		programs, err := spec.MultiProg(text, size, nil)
		if err != nil {
			return
		}
		seen := make([]bool, size)
		for _, p := range programs {
			for _, s := range p.Ranks {
				for r := s.First; int32(r) < int32(s.First)+s.Count; r++ {
					if seen[r] {
						t.Fatalf("rank %d twice in %q", r, text)
					}
					seen[r] = true
				}
			}
		}
		for r, ok := range seen {
			if !ok {
				t.Fatalf("rank %d has no program in %q", r, text)
			}
		}
	})
}

// Every value format is fed the same bytes: none may panic or take long.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"1", "1-2:3:4", "USR1@5", "plane=2", "map_cpu:1,2", "ALL,A='x,y'", "4GiB", "a100:2", "%3t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := spec.Time(s); err == nil && (d < 0 || d > filch.TimeMax) {
			t.Fatalf("Time(%q) = %v", s, d)
		}
		if n, err := spec.Memory(s); err == nil && n < 0 {
			t.Fatalf("Memory(%q) = %d", s, n)
		}
		if d, err := spec.Seconds(s); err == nil && d < 0 {
			t.Fatalf("Seconds(%q) = %v", s, d)
		}
		if n, err := spec.Count(s); err == nil && n < 0 {
			t.Fatalf("Count(%q) = %d", s, n)
		}
		spec.Nodes(s)
		spec.Warning(s)
		spec.Layout(s)
		spec.CPUBind(s)
		spec.Devices(s)
		_ = spec.PerNode(s)
		if e, err := spec.ReadExport(s); err == nil {
			e.Filter([]string{"A=1", s})
		}
	})
}
