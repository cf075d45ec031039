package workflow

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func openText(files map[string]string) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, os.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
}

// argvs is every command of a bag, words joined by |.
func argvs(t *testing.T, b *Bag) string {
	t.Helper()
	var all []string
	for i := range b.Len() {
		argv, err := b.Argv(i, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Join(argv, "|"))
	}
	return strings.Join(all, "; ")
}

// What GNU parallel makes of the same words (parallel --dry-run, version
// 20221122), but for its shell around each command.
func TestParallelWords(t *testing.T) {
	files := map[string]string{"abc": "A\nB\nC\n", "num": "1\n2\n", "crlf": "A\r\n", "-": "in\n"}
	for _, c := range []struct{ args, want string }{
		{"echo ::: a b", "echo|a; echo|b"},
		{"echo {} ::: a ::: 1 2", "echo|a|1; echo|a|2"},
		{"echo {1}-{2} ::: a b ::: 1 2", "echo|a-1; echo|a-2; echo|b-1; echo|b-2"},
		{"echo {2} {1} {-1} {-2} ::: a ::: 1", "echo|1|a|1|a"},
		{"echo x{}y ::: a ::: 1", "echo|xa 1y"},
		{"echo {1} {2} ::: a b c :::+ 1 2", "echo|a|1; echo|b|2"},
		{"echo ::: a b :::+ 1 2 ::: x y", "echo|a|1|x; echo|a|1|y; echo|b|2|x; echo|b|2|y"},
		{"echo :::: abc", "echo|A; echo|B; echo|C"},
		{"echo :::: abc num", "echo|A|1; echo|A|2; echo|B|1; echo|B|2; echo|C|1; echo|C|2"},
		{"echo :::: abc ::::+ num", "echo|A|1; echo|B|2"},
		{"echo :::: crlf -", "echo|A|in"},
		{"echo {#} ::: a b", "echo|1; echo|2"},
		{"echo {#}:{} ::: a b", "echo|1:a; echo|2:b"},
		{"echo {.} {/} {//} {/.} ::: d/e.f/g.tar.gz", "echo|d/e.f/g.tar|g.tar.gz|d/e.f|g.tar"},
		{"echo {.} {/} {//} {/.} ::: plain", "echo|plain|plain|.|plain"},
		{"echo {.} {/} {//} {/.} ::: d.x/plain", "echo|d.x/plain|plain|d.x|plain"},
		{"echo {//} ::: /a /a/b/ a/b/ /", "echo|/; echo|/a; echo|a; echo|/"},
		{"echo {1.} {1/} {1//} {1/.} {2/.} ::: a/b.c ::: d/e.f", "echo|a/b|b.c|a|b|e"},
		{"echo {%} {} ::: a", "echo|{%}|a"},
		{"::: true false", "true; false"},
		{"awk {print} ::: a", "awk|{print}|a"},
		{"echo {a} {} {{}} ::: v", "echo|{a}|v|{v}"},
		// A shell's own parameters stay; parallel replaces the braces.
		{"echo ${1} ${#} $x{} {} ::: v", "echo|${1}|${#}|$xv|v"},
	} {
		b, err := ParseSources(strings.Fields(c.args), openText(files))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if got := argvs(t, b); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.args, got, c.want)
		}
	}
	for args, want := range map[string]string{
		"echo :::":              "no value follows :::",
		"echo :::+ a":           "links to the source before it",
		"echo :::: none":        `cannot read the values of "none"`,
		"echo {3} ::: a ::: b":  "cannot replace {3}: a task has 2 of these values",
		"echo {-3} ::: a ::: b": "cannot replace {-3}",
		"echo {=s/a/b/=} ::: a": "perl",
	} {
		if _, err := ParseSources(strings.Fields(args), openText(files)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

// A command that is one text goes through a shell, and whatever a value holds
// reaches the program as one word.
func TestShellQuoting(t *testing.T) {
	values := []string{"plain", "two words", "", "it's", "$(rm -rf /)", "`id`", "a\nb", "*", "~", "-n", "\\", "\"", "é", "{}", "{1}", "a;b&c|d>e"}
	for _, v := range values {
		for _, text := range []string{"printf '<%s>' {}; :", "printf '<%s>'  "} {
			b, err := ParseSources([]string{text, ":::", v}, nil)
			if err != nil {
				t.Fatal(err)
			}
			argv, err := b.Argv(0, 1)
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).Output()
			if err != nil || string(out) != "<"+v+">" {
				t.Errorf("%q with %q: got %q, %v, from %q", text, v, out, err, argv)
			}
		}
	}
}

// Lines without anything for a shell are started without one; what they do is
// the same.
func TestShellArgv(t *testing.T) {
	for line, want := range map[string]string{
		"/bin/true":         "/bin/true",
		" gzip -9  a/b.c\t": "gzip|-9|a/b.c",
		"exit 3":            "/bin/sh|-c|exit 3",
		"cd /tmp":           "/bin/sh|-c|cd /tmp",
		"X=1 env":           "/bin/sh|-c|X=1 env",
		"a | b":             "/bin/sh|-c|a | b",
		"echo $HOME":        "/bin/sh|-c|echo $HOME",
		"ls *":              "/bin/sh|-c|ls *",
		"ls ~":              "/bin/sh|-c|ls ~",
		"a # b":             "/bin/sh|-c|a # b",
		"echo 'a b'":        "/bin/sh|-c|echo 'a b'",
		"a\nb":              "/bin/sh|-c|a\nb",
	} {
		if got := strings.Join(ShellArgv(line), "|"); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

func TestArray(t *testing.T) {
	for s, want := range map[string]string{
		"1-5":            "1 2 3 4 5 cap 0",
		"0-15:4":         "0 4 8 12 cap 0",
		"1,3,5-7%2":      "1 3 5 6 7 cap 2",
		"7":              "7 cap 0",
		"5,1":            "5 1 cap 0",
		"0-10:5,1-11:5":  "0 5 10 1 6 11 cap 0",
		"2147483647":     "2147483647 cap 0",
		"3-3:9,10-12:99": "3 10 cap 0",
	} {
		a, err := ParseArray(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		var got []string
		for i := range a.Len() {
			n, ok := a.At(i)
			if !ok {
				t.Fatalf("%s: no task %d of %d", s, i, a.Len())
			}
			got = append(got, fmt.Sprint(n))
		}
		if s2 := fmt.Sprintf("%s cap %d", strings.Join(got, " "), a.Cap); s2 != want {
			t.Errorf("%s: got %s, want %s", s, s2, want)
		}
		if _, ok := a.At(a.Len()); ok || func() bool { _, ok := a.At(-1); return ok }() {
			t.Errorf("%s: there is a task outside", s)
		}
	}
	for _, s := range []string{
		"", "x", "-1", "1-", "3-1", "1-5:0", "1-5:-1", "1-5%0", "1-5%", "1-5%x", "1,,2", "1-3,2", "0-100:7,0-100:5", "2147483648", "0-2147483647",
		"1-99999999999999999999", " 1", "1:2", "+1", "1-5%-1", strings.Repeat("1,", 2000) + "1", "1-5%9999999999",
	} {
		if a, err := ParseArray(s); err == nil {
			t.Errorf("%q was taken: %v", s, a)
		}
	}
	a, err := ParseArray("1-1000000:2%50")
	if err != nil || a.Len() != 500000 || a.Cap != 50 {
		t.Errorf("got %v, %v", a, err)
	}
}

// Where two ranges meet is what trying all says.
func TestRangesMeet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		random := func() Range {
			f := r.Int64N(60)
			x := Range{First: f, Last: f + r.Int64N(80), Step: 1 + r.Int64N(20)}
			x.Last -= (x.Last - x.First) % x.Step
			return x
		}
		a, b := random(), random()
		in := map[int64]bool{}
		for i := a.First; i <= a.Last; i += a.Step {
			in[i] = true
		}
		want, both := int64(0), false
		for i := b.First; i <= b.Last && !both; i += b.Step {
			want, both = i, in[i]
		}
		got, ok := a.meets(b)
		if ok != both || ok && got != want {
			t.Fatalf("%v and %v: got %d %v, want %d %v", a, b, got, ok, want, both)
		}
	}
}

func TestLines(t *testing.T) {
	read := func(l *Lines) (all []string, err error) {
		for {
			s, err := l.Next()
			if errors.Is(err, io.EOF) {
				return all, nil
			}
			if err != nil {
				return all, err
			}
			all = append(all, fmt.Sprintf("%d:%s", l.line, s))
		}
	}
	long := strings.Repeat("x", LineMax)
	for _, c := range []struct {
		text     string
		commands bool
		want     string
	}{
		{"a\nb\n", false, "[1:a 2:b]"},
		{"a\r\n\r\nb", false, "[1:a 2: 3:b]"},
		{"a\n \n\nb", true, "[1:a 4:b]"},
		{"", false, "[]"},
		{long + "\n" + long, false, "[1:" + long + " 2:" + long + "]"},
	} {
		got, err := read(NewLines(strings.NewReader(c.text), "f", c.commands))
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%.30q: got %.60q, %v", c.text, fmt.Sprint(got), err)
		}
	}
	for text, want := range map[string]string{"a\nb\x00": "f:2: the line holds a NUL byte", "a\n" + long + "y": "f:2: the line has more than 131071 bytes", long + "yyyyy\n": "f:1: the line has more"} {
		if _, err := read(NewLines(strings.NewReader(text), "f", false)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestEntries(t *testing.T) {
	read := func(text string) (all []string, err error) {
		e := NewEntries(strings.NewReader(text), "f")
		for {
			task, err := e.Next()
			if errors.Is(err, io.EOF) {
				return all, nil
			}
			if err != nil {
				return all, err
			}
			all = append(all, fmt.Sprintf("%d:%s:%s:%d", e.Line(), task.Name, strings.Join(task.Run.Argv, "|"), task.Need.CPUs))
		}
	}
	for text, want := range map[string]string{
		"[\"a b\",\n [\"c\", \"d e\"],\n {\"run\": [\"f\"],\n \"name\": \"n\", \"cpus\": 2}]\n": "[1::a|b:0 2::c|d e:0 3:n:f:2]",
		"\n\"a\"\n[\"b\"]\n{\"run\": \"c; d\"}":                                                 "[2::a:0 3::b:0 4::/bin/sh|-c|c; d:0]",
		"[]":                                                                                    "[]",
		" []":                                                                                   "[]",
	} {
		if got, err := read(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"[\"a\",\n 5]":                              "",
		"[\"a\",\n {\"rum\": \"x\"}]":               `f:2: entry 2 has the unknown key "rum" (did you mean run?)`,
		"[\"a\",\n {\"run\": \"x\",\n\"cpus\": 0}]": `f:3: entry 2: cpus: "0" is not a number of slots`,
		"[\"a\",\n{\"run\":\n\"x\"":                 "f:",
		"[\"a\"]\n\"b\"":                            "f:2: something follows the end of the list",
		"[\"a\"\n\"b\"]":                            "f:2: entry 2: this is no JSON",
		"[\"a\\u0000\"]":                            "f:1: entry 1: run holds a NUL byte",
		"[\"" + strings.Repeat("x", EntryMax*2):     "f:1: entry 1 has more than 4.2 MB",
		"[\"a\", " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "]": "f:1: values are nested more than 32 deep",
		strings.Repeat(" ", 2*EntryMax):                                        "f:1: entry 1 has more than",
	} {
		_, err := read(text)
		if want == "" && err == nil {
			continue // a number is text too
		}
		got := "no error"
		if err != nil {
			got = err.Error()
		}
		if told := hinted(err); told != "" {
			got += " (" + told + ")"
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%.40q: got %s, want %s", text, got, want)
		}
	}
}

func TestEntryValues(t *testing.T) {
	e := NewEntries(strings.NewReader("[\"a b\", {\"x\": [1,  2]}, 1.50, null]"), "f")
	var got []string
	for {
		v, err := e.NextValue()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
	if s := strings.Join(got, "; "); s != `a b; {"x":[1,2]}; 1.50; null` {
		t.Errorf("got %s", s)
	}
}

// A million tasks cost what their values do and four bytes each, an array
// nothing; and each is made when it is asked for.
func TestBagsAreLazy(t *testing.T) {
	b, err := ParseSources(append([]string{"x", "{1}", "{2}", ":::"}, append(strings.Fields(strings.Repeat("v ", 1000)), append([]string{":::"}, strings.Fields(strings.Repeat("w ", 1000))...)...)...), nil)
	if err != nil || b.Len() != 1_000_000 {
		t.Fatalf("got %d tasks, %v", b.Len(), err)
	}
	if allocs := testing.AllocsPerRun(100, func() { _, _ = b.Argv(999_999, 1) }); allocs > 20 {
		t.Errorf("the last task takes %v allocations", allocs)
	}
	lines := strings.Repeat("gzip file-000000.bin\n", 1_000_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var v Values
	if err := NewLines(strings.NewReader(lines), "f", true).All(&v); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := float64(after.HeapAlloc-before.HeapAlloc) / 1e6; v.Len() != 1_000_000 || per > 40 {
		t.Errorf("%d lines of 20 bytes take %.0f bytes each", v.Len(), per)
	}
	if v.At(0) != "gzip file-000000.bin" || v.At(999_999) != v.At(0) {
		t.Errorf("got %q", v.At(999_999))
	}
}
