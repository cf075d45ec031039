package workflow

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
)

// edge goes from a parent to a child.
type edge struct{ from, to int32 }

// candidate is an edge due to a file with several writers: child to reads file, and from
// is a writer of file.
type candidate struct {
	edge edge
	file int32
}

// version is a file as written by one of its writers.
type version struct{ writer, file int32 }

// declared is a parent named by a task, not yet looked up.
type declared struct {
	task   int32
	line   int
	parent string
}

// builder puts a graph together: readers add tasks, files and edges in the
// order of their text, and [builder.finish] checks the whole.
type builder struct {
	src       source
	g         *Graph
	tasks     map[string]int32
	files     map[string]int32 // by origin
	more      map[int32][]int32
	moreSizes map[int32][]int64 // of the files of these writers
	stated    []int64           // per file: the size in a reader's text, -1 none
	declared  []declared
	uses      int
	traps     *traps
	all       *problems // nil: the first error ends the reading
}

// problems collects the errors of a file.
type problems struct {
	list []error
	more int // beyond ProblemsMax
}

// ProblemsMax bounds the errors that [Check] returns.
const ProblemsMax = 100

// problem is the error itself, or nil if errors are collected.
func (b *builder) problem(err error) error {
	if b.all == nil || err == nil {
		return err
	}
	b.all.add(err)
	return nil
}

// full reports whether further errors are only counted.
func (p *problems) full() bool { return p != nil && len(p.list) >= ProblemsMax }

// add adds an error, unless the error was added before: all tasks repeat an error of the
// defaults.
func (p *problems) add(err error) {
	if slices.ContainsFunc(p.list, func(e error) bool { return e.Error() == err.Error() }) {
		return
	}
	if p.full() {
		p.more++
		return
	}
	p.list = append(p.list, err)
}

func newBuilder(src source, replay bool) *builder {
	return &builder{
		src: src, g: &Graph{Replay: replay},
		tasks: map[string]int32{}, files: map[string]int32{}, more: map[int32][]int32{}, moreSizes: map[int32][]int64{},
		traps: newTraps(),
	}
}

// task adds a task.
func (b *builder) task(name, kind string, line int) (int32, error) {
	switch {
	case name == "":
		return 0, b.src.errorf(line, "a task has no name")
	case len(name) > NameMax:
		return 0, b.src.errorf(line, "task %s: its name has %d bytes, at most %d", quote(name), len(name), NameMax)
	case strings.ContainsFunc(name, isControl):
		return 0, b.src.errorf(line, "task %s: its name holds a control character", quote(name))
	case len(b.g.Tasks) >= TasksMax:
		return 0, b.src.errorf(line, "task %s is one too many: at most %d", quote(name), TasksMax)
	}
	if old, ok := b.tasks[name]; ok {
		return 0, b.src.errorf(line, "task %s is there twice: also on line %d", quote(name), b.g.Tasks[old].Line)
	}
	if len(kind) > NameMax {
		kind = kind[:NameMax]
	}
	kind = visible(kind)
	t := int32(len(b.g.Tasks))
	b.tasks[name] = t
	b.g.Tasks = append(b.g.Tasks, Task{Name: name, Kind: kind, Line: line})
	return t, nil
}

func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufffd'
}

// file finds or adds a file. Size is -1 if unknown.
func (b *builder) file(origin string, line int, task string) (int32, error) {
	if f, ok := b.files[origin]; ok {
		return f, nil
	}
	path := origin
	if b.g.Replay {
		if origin == "" {
			return 0, b.src.errorf(line, "task %s: a file without a name", quote(task))
		}
		if path = flatten(origin); path != origin {
			b.traps.add(TrapName, "%s", origin)
		}
	} else if err := CheckPath(path); err != nil {
		return 0, b.src.errorf(line, "task %s: the file %s is refused: %v", quote(task), quote(path), err)
	}
	if len(b.g.Files) >= FilesMax {
		return 0, b.src.errorf(line, "task %s: the file %s is one too many: at most %d", quote(task), quote(path), FilesMax)
	}
	f := int32(len(b.g.Files))
	b.files[origin] = f
	b.g.Files = append(b.g.Files, File{Path: path, Origin: origin, Size: -1, Writer: -1})
	b.stated = append(b.stated, -1)
	return f, nil
}

func (b *builder) use(t int32, line int) error {
	if b.uses++; b.uses > EdgesMax {
		return b.src.errorf(line, "task %s: too many uses of files: at most %d in all", quote(b.g.Tasks[t].Name), EdgesMax)
	}
	return nil
}

// input adds a file to the inputs of task t; size is the size in this use, -1 if unknown.
func (b *builder) input(t int32, origin string, size int64, line int) error {
	task := &b.g.Tasks[t]
	f, err := b.file(origin, line, task.Name)
	if err == nil {
		err = b.use(t, line)
	}
	if err != nil {
		return err
	}
	task.Inputs = append(task.Inputs, f)
	if size >= 0 {
		if old := b.stated[f]; old >= 0 && old != size {
			b.traps.addOnce(TrapSizes, origin, int64(f))
		}
		b.stated[f] = max(b.stated[f], size)
	}
	return nil
}

// output adds a file to the outputs of task t.
func (b *builder) output(t int32, origin string, size int64, line int) error {
	task := &b.g.Tasks[t]
	f, err := b.file(origin, line, task.Name)
	if err == nil {
		err = b.use(t, line)
	}
	if err != nil {
		return err
	}
	file := &b.g.Files[f]
	if more := b.more[f]; file.Writer == t || len(more) > 0 && more[len(more)-1] == t {
		return nil // stated twice: once is enough
	}
	task.Outputs = append(task.Outputs, f)
	switch {
	case file.Writer < 0:
		file.Writer = t
		file.Size = size
	case !b.g.Replay:
		other := &b.g.Tasks[file.Writer]
		return b.src.errorf(line, "task %s: the file %s is also written by task %s (line %d): a file has one writer",
			quote(task.Name), quote(origin), quote(other.Name), other.Line)
	default:
		b.more[f], b.moreSizes[f] = append(b.more[f], t), append(b.moreSizes[f], size)
		if file.Size != size {
			b.traps.addOnce(TrapSizes, origin, int64(f))
		}
	}
	return nil
}

// after adds a named parent of task t; the parent may come later in the text.
func (b *builder) after(t int32, parent string, line int) error {
	if len(b.declared) >= EdgesMax {
		return b.src.errorf(line, "task %s: too many edges: at most %d", quote(b.g.Tasks[t].Name), EdgesMax)
	}
	b.declared = append(b.declared, declared{task: t, line: line, parent: parent})
	return nil
}

// finish checks all of the graph and returns the graph.
func (b *builder) finish() (*Graph, error) {
	if len(b.g.Tasks) == 0 {
		return nil, b.src.errorf(0, "there is no task in it")
	}
	if err := b.resolve(); err != nil {
		return nil, err
	}
	if err := b.settle(); err != nil {
		return nil, err
	}
	if !b.g.Replay && (b.all == nil || len(b.all.list) == 0) {
		if err := b.apart(); err != nil {
			return nil, err
		}
	}
	b.sizes()
	b.census()
	b.g.Traps = b.traps.list()
	return b.g, nil
}

// resolve looks up the named parents of tasks.
func (b *builder) resolve() error {
	for _, d := range b.declared {
		t := &b.g.Tasks[d.task]
		p, ok := b.tasks[d.parent]
		if !ok {
			if b.all.full() {
				b.all.more++ // without a look for the nearest name
				continue
			}
			err := b.src.errorf(d.line, "task %s: its parent %s is not in this file", quote(t.Name), quote(d.parent))
			if near := nearest(d.parent, b.names()); near != "" {
				err = err.WithHint("did you mean %s?", quote(near))
			}
			if err := b.problem(err); err != nil {
				return err
			}
			continue
		}
		if p == d.task {
			if err := b.problem(b.src.errorf(d.line, "task %s waits for itself", quote(t.Name))); err != nil {
				return err
			}
			continue
		}
		t.After = append(t.After, p)
	}
	b.declared = nil
	for i := range b.g.Tasks {
		t := &b.g.Tasks[i]
		t.After = unique(t.After)
		t.Inputs = unique(t.Inputs)
		t.Outputs = unique(t.Outputs)
	}
	return nil
}

func (b *builder) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range b.g.Tasks {
			if !yield(b.g.Tasks[i].Name) {
				return
			}
		}
	}
}

func unique(s []int32) []int32 {
	slices.Sort(s)
	return slices.Compact(s)
}

// apart refuses a file whose path is a folder in another file's path.
func (b *builder) apart() error {
	for i := range b.g.Files {
		p := b.g.Files[i].Path
		for k := range len(p) {
			if p[k] != '/' || b.all.full() {
				continue
			}
			if folder, ok := b.files[p[:k]]; ok {
				user := b.userOf(int32(i))
				if err := b.problem(b.src.errorf(user.Line, "task %s: the file %s needs a folder where task %s has the file %s",
					quote(user.Name), quote(p), quote(b.userOf(folder).Name), quote(p[:k]))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// userOf is the first task that uses a file.
func (b *builder) userOf(f int32) *Task {
	for i := range b.g.Tasks {
		t := &b.g.Tasks[i]
		if slices.Contains(t.Outputs, f) || slices.Contains(t.Inputs, f) {
			return t
		}
	}
	panic(fmt.Sprintf("workflow: file %d of %d has no user", f, len(b.g.Files)))
}

// sizes gives a file without a size from its writer the largest size in a reader's text,
// and reports files with two different sizes.
func (b *builder) sizes() {
	for i := range b.g.Files {
		f := &b.g.Files[i]
		if i >= len(b.stated) {
			break // versions of several writers, with a copied size
		}
		switch s := b.stated[i]; {
		case f.Size < 0:
			f.Size = s
		case s >= 0 && s != f.Size:
			b.traps.addOnce(TrapSizes, f.Origin, int64(i))
		}
		if f.Size < 0 && b.g.Replay {
			f.Size = 0
			b.traps.add(TrapUnsized, "%s", f.Origin)
		}
	}
}

// cycle is the error for a graph with a cycle; left are the tasks that can never start.
func (b *builder) cycle(left []int32, parents func(int32) []int32) *filch.Error {
	in := make(map[int32]bool, len(left))
	for _, t := range left {
		in[t] = true
	}
	// Every task in left has a parent in left: a walk from parent to parent must come
	// back.
	seen := map[int32]int{}
	var walk []int32
	for t := left[0]; ; {
		if at, ok := seen[t]; ok {
			walk = append(walk[at:], t)
			break
		}
		seen[t] = len(walk)
		walk = append(walk, t)
		for _, p := range parents(t) {
			if in[p] {
				t = p
				break
			}
		}
	}
	slices.Reverse(walk)
	names := make([]string, len(walk))
	for i, t := range walk {
		names[i] = b.g.Tasks[t].Name
	}
	first := &b.g.Tasks[walk[0]]
	return b.src.errorf(first.Line, "task %s waits for itself: %s", quote(first.Name), chain(names)).
		WithHint("each task needs the task before, by an edge or by a file")
}
