package staging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// wrote makes a node have a file that a task of job 5 wrote.
func (c *group) wrote(n filch.NodeName, writer int32, name string, text []byte) {
	c.t.Helper()
	at := filepath.Join(c.node(n).dir, "5", keptPath(writer, name))
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(at, text, 0o400); err != nil {
		c.t.Fatal(err)
	}
}

// attempt is a try of task 9 of job 5; each file comes from the node that from names for
// its writer.
func attempt(from map[int32]filch.NodeName, files ...launcher.TaskFile) *Attempt {
	return &Attempt{
		start: launcher.TaskStart{Job: 5, Index: 9, Attempt: 1},
		graph: &launcher.TaskGraph{Origin: "n1", Folder: "/nowhere"},
		item:  launcher.TaskItem{Inputs: files}, from: from,
	}
}

// holds checks an input in the folder of task 9.
func (c *group) holds(n filch.NodeName, name string, want []byte) {
	c.t.Helper()
	got, err := os.ReadFile(filepath.Join(c.node(n).dir, "5", "run", "9.1", name))
	if err != nil || !bytes.Equal(got, want) {
		c.t.Errorf("%q: got %d bytes, %v, want %d bytes", name, len(got), err, len(want))
	}
}

// noParts checks that a node has no part of a file.
func (c *group) noParts(n filch.NodeName) {
	c.t.Helper()
	if left, err := filepath.Glob(filepath.Join(c.node(n).dir, "5", "part", "*")); err != nil || len(left) > 0 {
		c.t.Errorf("left on %s: %v, %v", n, left, err)
	}
}

// manyInputs is 500 files of one byte on the three nodes n1, n2 and n3.
func manyInputs(c *group) (from map[int32]filch.NodeName, files []launcher.TaskFile) {
	from = map[int32]filch.NodeName{}
	for i := range int32(500) {
		from[i] = filch.NodeName(fmt.Sprintf("n%d", 1+i%3))
		f := launcher.TaskFile{Path: fmt.Sprintf("in/some.file.%d", i), Writer: i, Size: 1}
		c.wrote(from[i], i, f.Path, []byte{byte(i)})
		files = append(files, f)
	}
	return from, files
}

func TestSmallInputsOfANodeComeTogether(t *testing.T) {
	c := newGroup(t, "n1", "n2", "n3", "n4")
	from, files := manyInputs(c)
	// One has a name of two lines, another is empty, a third is a program.
	files[7].Path, files[8].Path, files[9].Path = "a\nb", "empty", "program"
	c.wrote(from[7], 7, files[7].Path, []byte{7})
	c.wrote(from[8], 8, files[8].Path, nil)
	c.wrote(from[9], 9, files[9].Path, []byte{9})
	if err := os.Chmod(filepath.Join(c.node(from[9]).dir, "5", keptPath(9, "program")), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := c.node("n4").fill(t.Context(), attempt(from, files...)); err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		want := []byte{byte(i)}
		if i == 8 {
			want = nil
		}
		c.holds("n4", f.Path, want)
	}
	if st, err := os.Stat(filepath.Join(c.node("n4").dir, "5", "run", "9.1", "program")); err != nil || st.Mode().Perm() != 0o555 {
		t.Errorf("the program: got %v, %v", st.Mode(), err)
	}
	for _, n := range []filch.NodeName{"n1", "n2", "n3"} {
		if c.asked[n] != 2 { // 167 files, at most 128 in a request
			t.Errorf("%s: got %d requests, want 2", n, c.asked[n])
		}
	}
	c.noParts("n4")
}

// The second file need not wait for the end of the first.
func TestLargeInputsComeAtTheSameTime(t *testing.T) {
	c := newGroup(t, "n1", "n2")
	text := bytes.Repeat([]byte("0123456789abcdef"), (wire.PartBytes+160)/16)
	var files []launcher.TaskFile
	for i := range int32(2 * fetchesPerTask) {
		f := launcher.TaskFile{Path: fmt.Sprintf("f%d", i)}
		c.wrote("n1", 0, f.Path, text)
		files = append(files, f)
	}
	busy := c.node("n1")
	busy.hash.Lock()
	ended := make(chan error, 1)
	task := attempt(map[int32]filch.NodeName{0: "n1"}, files...)
	go func() { ended <- c.node("n2").fill(t.Context(), task) }()
	poll(t, "all requests that a task may have", func() bool { return len(busy.busy) == fetchesPerTask })
	busy.hash.Unlock()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		c.holds("n2", f.Path, text)
	}
	c.noParts("n2")
	if want := int64(len(files) * len(text)); task.moved != want || task.moving <= 0 {
		t.Errorf("%d bytes came in %v, want %d", task.moved, task.moving, want)
	}
	again := attempt(map[int32]filch.NodeName{0: "n1"}, files...)
	if err := c.node("n2").fill(t.Context(), again); err != nil || again.moved != 0 {
		t.Errorf("%d bytes came once more, error %v", again.moved, err)
	}
}

// The node of a file dies after the first part: another node, which needed the file, has
// the rest.
func TestRestOfAnInputComesFromAnotherHolder(t *testing.T) {
	c := newGroup(t, "n1", "n2", "n3", "n4")
	text := bytes.Repeat([]byte("0123456789abcdef"), (5*wire.PartBytes)/16)
	small := launcher.TaskFile{Path: "small"}
	for _, n := range []filch.NodeName{"n1", "n3"} {
		c.wrote(n, 0, "large", text)
		c.wrote(n, 0, small.Path, []byte("small"))
	}
	var parts, rest atomic.Int32
	c.way = func(from, _ filch.NodeName, f *wire.Frame) bool {
		var p wire.Parts
		if f.Kind != wire.KindPart || wire.Unmarshal(f.Body, &p) != nil || len(p.Parts[0].Data) < wire.PartBytes {
			return true
		}
		switch {
		case from == "n3":
			rest.Add(1)
		case parts.Add(1) == 2:
			c.kill("n1")
			return false
		}
		return true
	}
	b := attempt(map[int32]filch.NodeName{0: "n1"}, launcher.TaskFile{Path: "large"}, small)
	if err := c.node("n4").fill(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	c.holds("n4", "large", text)
	if rest.Load() != 4 {
		t.Errorf("got %d parts from the other holder, want the last 4", rest.Load())
	}
	// The node is dead before the first question: all comes from the other holder.
	b.item.Inputs, b.start.Attempt = append(b.item.Inputs, launcher.TaskFile{Path: "later"}), 1
	c.wrote("n3", 0, "later", []byte("later"))
	if err := c.node("n4").fill(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	c.holds("n4", "later", []byte("later"))
	c.noParts("n4")
}

// A node whose data has not the sum is no holder. Without another holder, nothing appears.
func TestInputsOfANodeThatLies(t *testing.T) {
	for _, holders := range []int{1, 2} {
		t.Run(fmt.Sprintf("holders-%d", holders), func(t *testing.T) {
			c := newGroup(t, "n1", "n2", "n3")
			text := bytes.Repeat([]byte("0123456789abcdef"), (2*wire.PartBytes)/16)
			for _, n := range []filch.NodeName{"n1", "n2"}[:holders] {
				c.wrote(n, 0, "large", text)
				c.wrote(n, 0, "small", []byte("small"))
			}
			c.way = func(from, _ filch.NodeName, f *wire.Frame) bool {
				var p wire.Parts
				if from == "n1" && f.Kind == wire.KindPart && wire.Unmarshal(f.Body, &p) == nil {
					for i := range p.Parts {
						if d := p.Parts[i].Data; len(d) > 0 {
							d[len(d)/2]++
						}
					}
					f.Body, _ = wire.Marshal(&p)
				}
				return true
			}
			b := attempt(map[int32]filch.NodeName{0: "n1"}, launcher.TaskFile{Path: "small"}, launcher.TaskFile{Path: "large"})
			err := c.node("n3").fill(t.Context(), b)
			if holders == 1 {
				if err == nil || !strings.Contains(err.Error(), "is damaged") {
					t.Errorf("got %v", err)
				}
				for _, name := range []string{"large", "small"} {
					if _, err := os.Stat(filepath.Join(c.node("n3").dir, "5", keptPath(0, name))); err == nil {
						t.Errorf("%s is there", name)
					}
				}
			} else {
				if err != nil {
					t.Fatal(err)
				}
				c.holds("n3", "large", text)
				c.holds("n3", "small", []byte("small"))
			}
			c.noParts("n3")
		})
	}
}

// Two tasks need the same files in opposite order, and each brings a part of the files for
// the other. One is cancelled: the other goes on alone.
func TestInputsSharedByTasks(t *testing.T) {
	c := newGroup(t, "n1", "n2")
	var files []launcher.TaskFile
	for i := range int32(300) {
		f := launcher.TaskFile{Path: fmt.Sprint("f", i)}
		c.wrote("n1", 0, f.Path, []byte(f.Path))
		files = append(files, f)
	}
	held := make(chan struct{})
	var answers atomic.Int32
	c.way = func(_, _ filch.NodeName, f *wire.Frame) bool {
		if f.Kind == wire.KindPart {
			answers.Add(1)
			<-held
		}
		return true
	}
	from := map[int32]filch.NodeName{0: "n1"}
	one, two := attempt(from, files[:200]...), attempt(from)
	for i := range files {
		two.item.Inputs = append(two.item.Inputs, files[len(files)-1-i])
	}
	two.start.Attempt = 2
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := [2]chan error{make(chan error, 1), make(chan error, 1)}
	go func() { ended[0] <- c.node("n2").fill(ctx, one) }()
	poll(t, "the first task's questions", func() bool { return answers.Load() == 2 })
	go func() { ended[1] <- c.node("n2").fill(t.Context(), two) }()
	poll(t, "the second task's questions", func() bool { return answers.Load() == 3 })
	cancel()
	if err := <-ended[0]; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v of the cancelled task", err)
	}
	close(held)
	if err := <-ended[1]; err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		got, err := os.ReadFile(filepath.Join(c.node("n2").dir, "5", "run", "9.2", f.Path))
		if err != nil || string(got) != f.Path {
			t.Fatalf("%s: got %q, %v", f.Path, got, err)
		}
	}
	c.noParts("n2")
}

// BenchmarkInputs brings 500 inputs of one byte from three nodes: together, and one after
// the other.
func BenchmarkInputs(b *testing.B) {
	for _, way := range []string{"together", "one-by-one"} {
		b.Run("files=500/nodes=3/way="+way, func(b *testing.B) {
			c := newGroup(b, "n1", "n2", "n3", "n4")
			from, files := manyInputs(c)
			g := c.node("n4")
			for b.Loop() {
				if err := os.RemoveAll(filepath.Join(g.dir, "5")); err != nil {
					b.Fatal(err)
				}
				lists := [][]launcher.TaskFile{files}
				if way == "one-by-one" {
					lists = nil
					for i := range files {
						lists = append(lists, files[i:i+1])
					}
				}
				for _, l := range lists {
					if err := g.fill(b.Context(), attempt(from, l...)); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// A node that lives and that no way leads to is named in plain words.
func TestInputsOfANodeThatIsCutOff(t *testing.T) {
	c := newGroup(t, "n1", "n2")
	c.cut = "n1"
	for _, writer := range []int32{-1, 0} {
		whose := map[int32]string{-1: "", 0: ", which task 5.0 wrote,"}[writer]
		want := `cannot get "in"` + whose + " from node n1 on node n2: node n1 cannot be reached: its launcher has ended, or the network between the nodes is cut"
		err := c.node("n2").fill(t.Context(), attempt(map[int32]filch.NodeName{0: "n1"}, launcher.TaskFile{Path: "in", Writer: writer}))
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
