package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/filch-hpc/filch/mtc/workflow"
)

func made(t testing.TB, path string, size int64, inputs ...Named) ([]byte, Sum) {
	t.Helper()
	var b bytes.Buffer
	sum, err := Make(&b, path, size, inputs)
	if err != nil || int64(b.Len()) != size {
		t.Fatalf("made %d bytes of %d: %v", b.Len(), size, err)
	}
	return b.Bytes(), sum
}

// The content of a file is its own: it depends on the name, the size and on
// every input's name and content, and on nothing else.
func TestContent(t *testing.T) {
	in1, in2 := Named{"a", Sum{1}}, Named{"b", Sum{2}}
	seen := map[Sum]string{}
	for _, c := range []struct {
		path   string
		size   int64
		inputs []Named
	}{
		{"x", 100, nil},
		{"y", 100, nil},
		{"x", 101, nil},
		{"x", 100, []Named{in1}},
		{"x", 100, []Named{in2}},
		{"x", 100, []Named{in1, in2}},
		{"x", 100, []Named{{"a", Sum{2}}}},
		{"xa", 100, nil},
		{"x", chunk + 1, nil},
	} {
		what := fmt.Sprint(c)
		_, sum := made(t, c.path, c.size, c.inputs...)
		if old, twice := seen[sum]; twice {
			t.Errorf("%s and %s have the same content", what, old)
		}
		seen[sum] = what
	}
	a, _ := made(t, "x", 1000, in1, in2)
	b, _ := made(t, "x", 1000, in2, in1)
	if !bytes.Equal(a, b) {
		t.Error("the order in which inputs are named changes the content")
	}
}

// Any change of any byte shows, and so does a file cut short or gone on,
// however its reader is fed.
func TestVerify(t *testing.T) {
	for _, size := range []int64{0, 1, 31, 32, 33, 100, chunk, chunk + 1, 3*chunk + 7} {
		good, want := made(t, "f", size)
		for _, r := range []*bytes.Reader{bytes.NewReader(good)} {
			if got, err := Verify(iotest.DataErrReader(r), size); err != nil || got != want {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
		if size < 200 {
			if _, err := Verify(iotest.OneByteReader(bytes.NewReader(good)), size); err != nil {
				t.Errorf("%d bytes, one by one: %v", size, err)
			}
		}
		if _, err := Verify(bytes.NewReader(append(slices.Clone(good), 0)), size); err == nil {
			t.Errorf("%d bytes: one more was not seen", size)
		}
		if size == 0 {
			continue
		}
		if _, err := Verify(bytes.NewReader(good[:size-1]), size); err == nil {
			t.Errorf("%d bytes: one less was not seen", size)
		}
		for _, at := range []int64{0, size / 2, size - 1} {
			bad := slices.Clone(good)
			bad[at] ^= 1
			got, err := Verify(bytes.NewReader(bad), size)
			// Up to 32 bytes there is nothing to compare with but the sum.
			if size > seedBytes && err == nil || got == want {
				t.Errorf("%d bytes: a change of byte %d was not seen", size, at)
			}
		}
	}
	if _, err := Verify(iotest.ErrReader(errors.New("broken disk")), 5); err == nil || !strings.Contains(err.Error(), "broken disk") {
		t.Errorf("got %v", err)
	}
}

func TestArgs(t *testing.T) {
	want := Spec{Task: "a b", Time: 1500 * time.Millisecond, Burn: true, Trace: "/t", In: []File{{"x=1:2", 0}}, Out: []File{{"y~2", 77}}}
	got, err := Parse([]string{"--task", "a b", "--time", "1.5s", "--burn", "--trace", "/t", "in:0:x=1:2", "out:77:y~2"})
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "--task", "--task a x", "--task a in:5", "--task a in:-1:x", "--task a in:1:/x", "--task a out:1:../x", "--task a up:1:x", "--task a --time x", "--task a --time -1s", "--tusk a", "--task a in:99999999999999999999:x"} {
		if s, err := Parse(strings.Fields(bad)); err == nil {
			t.Errorf("%q was taken: %+v", bad, s)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("--task a\n--time 1s\nin:5:x\nout:7:y")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(strings.Split(text, "\n"))
		if err != nil {
			return
		}
		for _, f := range append(s.In, s.Out...) {
			if f.Size < 0 || workflow.CheckPath(f.Path) != nil {
				t.Fatalf("%q: the file %+v is taken", text, f)
			}
		}
		if s.Task == "" || s.Time < 0 {
			t.Fatalf("%q: %+v is taken", text, s)
		}
	})
}

// A task reads, writes, takes its time, and says so; one whose input is wrong
// fails and leaves nothing.
func TestPlay(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	if err := Play(Spec{Task: "first", Trace: trace, Out: []File{{"x", 5000}, {"sub/y", 0}}}, dir); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	second := Spec{Task: "second", Time: 50 * time.Millisecond, Trace: trace, In: []File{{"x", 5000}, {"sub/y", 0}}, Out: []File{{"z", 10}}}
	if err := Play(second, dir); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < second.Time {
		t.Errorf("took %v, should take %v", took, second.Time)
	}
	second.Burn = true
	if err := Play(second, dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	b[4000]++
	if err := os.WriteFile(filepath.Join(dir, "x"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	second.Out = []File{{"never", 10}}
	if err := Play(second, dir); err == nil || !strings.Contains(err.Error(), "the input x: its content is wrong between bytes") {
		t.Errorf("got %v", err)
	}
	if err := Play(Spec{Task: "third", Trace: trace, In: []File{{"none", 1}}}, dir); err == nil {
		t.Error("a missing input was not seen")
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	parts, _ := filepath.Glob(filepath.Join(dir, ".part*"))
	if len(left) != 4 || len(parts) != 0 { // sub, trace, x, z
		t.Errorf("left are %v and %v", left, parts)
	}
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var got []string
	lines := json.NewDecoder(f)
	for lines.More() && err == nil {
		var r Record
		err = lines.Decode(&r)
		got = append(got, fmt.Sprintf("%s %s %d %d %v", r.Event, r.Task, len(r.In), len(r.Out), r.Error == ""))
	}
	want := "start first 0 0 true; end first 0 2 true; start second 0 0 true; end second 2 1 true; start second 0 0 true; end second 2 1 true; " +
		"start second 0 0 true; end second 1 0 false; start third 0 0 true; end third 1 0 false"
	if s := strings.Join(got, "; "); err != nil || s != want {
		t.Errorf("got  %s, %v\nwant %s", s, err, want)
	}
}
