package workflow

import (
	"encoding/json"
	"math"
	"path"
	"strings"
)

// WfFormat is the form of the WfCommons project, https://wfcommons.org/format. Version
// 1.5 splits a workflow into its specification (tasks, edges, files) and its execution
// (run times, commands). Up to 1.4 a task was a single object with its files and its run
// time, and named its parents by their names.

// wfTask is a task in any of the layouts.
type wfTask struct {
	Name     string   `json:"name"`
	ID       string   `json:"id"`
	Category string   `json:"category"`
	Parents  []string `json:"parents"`
	Children []string `json:"children"`
	Inputs   []string `json:"inputFiles"`
	Outputs  []string `json:"outputFiles"`
	Files    []wfUse  `json:"files"` // up to 1.4
	wfEnd
	line int
}

// wfUse is a file of a task, up to 1.4.
type wfUse struct {
	Link  string      `json:"link"`
	Name  string      `json:"name"`
	Bytes json.Number `json:"sizeInBytes"`
	Size  json.Number `json:"size"` // up to 1.3
}

// wfEnd is the part of an execution for a task.
type wfEnd struct {
	Seconds json.Number     `json:"runtimeInSeconds"`
	Runtime json.Number     `json:"runtime"` // up to 1.3
	Cores   json.Number     `json:"coreCount"`
	Command json.RawMessage `json:"command"`
}

type wfFile struct {
	ID    string      `json:"id"`
	Bytes json.Number `json:"sizeInBytes"`
	line  int
}

type wfRun struct {
	ID string `json:"id"`
	wfEnd
	line int
}

// wfReader holds the parts of a file until the reader has all of them.
type wfReader struct {
	*jsonText
	b       *builder
	version string
	name    string
	tasks   []wfTask
	files   []wfFile
	runs    []wfRun
	named   int // parents, children and uses of files so far
}

func readWfFormat(src source, text []byte) (*Graph, error) {
	w := &wfReader{jsonText: newJSONText(src, text), b: newBuilder(src, true)}
	err := w.object("the file", func(key string) error {
		switch key {
		case "name":
			return w.take(&w.name)
		case "schemaVersion":
			return w.take(&w.version)
		case "workflow":
			return w.object("workflow", w.workflow)
		}
		return w.skip()
	})
	if err == nil {
		err = w.end()
	}
	if err == nil {
		err = w.build()
	}
	if err != nil {
		return nil, err
	}
	g, err := w.b.finish()
	if err != nil {
		return nil, err
	}
	g.Name, g.Format = w.name, "WfFormat"
	if w.version != "" {
		g.Format += " " + w.version
	}
	return g, nil
}

func (w *wfReader) workflow(key string) error {
	switch key {
	case "specification":
		return w.object("specification", func(key string) error {
			switch key {
			case "tasks":
				return w.list("tasks", w.task)
			case "files":
				return w.list("files", func(line int) error {
					f := wfFile{line: line}
					if len(w.files) >= FilesMax {
						return w.src.errorf(line, "too many files: at most %d", FilesMax)
					}
					err := w.take(&f)
					w.files = append(w.files, f)
					return err
				})
			}
			return w.skip()
		})
	case "execution":
		return w.object("execution", func(key string) error {
			if key != "tasks" {
				return w.skip()
			}
			return w.list("tasks", func(line int) error {
				r := wfRun{line: line}
				if len(w.runs) >= TasksMax {
					return w.src.errorf(line, "too many tasks: at most %d", TasksMax)
				}
				err := w.take(&r)
				w.runs = append(w.runs, r)
				return err
			})
		})
	case "tasks", "jobs":
		return w.list(key, w.task)
	}
	return w.skip()
}

func (w *wfReader) task(line int) error {
	if len(w.tasks) >= TasksMax {
		return w.src.errorf(line, "too many tasks: at most %d", TasksMax)
	}
	t := wfTask{line: line}
	err := w.take(&t)
	if t.ID == "" {
		t.ID = t.Name
	}
	if w.named += len(t.Parents) + len(t.Children) + len(t.Inputs) + len(t.Outputs) + len(t.Files); err == nil && w.named > EdgesMax {
		err = w.src.errorf(line, "task %s: too many edges and uses of files: at most %d in all", quote(t.ID), EdgesMax)
	}
	w.tasks = append(w.tasks, t)
	return err
}

// build hands the parts to the builder.
func (w *wfReader) build() error {
	ends := make(map[string]*wfRun, len(w.runs))
	for i := range w.runs {
		r := &w.runs[i]
		if ends[r.ID] != nil {
			return w.src.errorf(r.line, "the execution has task %s twice: also on line %d", quote(r.ID), ends[r.ID].line)
		}
		ends[r.ID] = r
	}
	sizes, err := w.sizes()
	if err != nil {
		return err
	}
	byName := map[string]string{} // of names that a single task has
	for i := range w.tasks {
		t := &w.tasks[i]
		end := t.wfEnd
		if r := ends[t.ID]; r != nil {
			end = r.wfEnd
			delete(ends, t.ID)
		}
		if err := w.add(t, end, sizes); err != nil {
			return err
		}
		if _, twice := byName[t.Name]; twice {
			byName[t.Name] = ""
		} else {
			byName[t.Name] = t.ID
		}
	}
	for i := range w.runs {
		if r := &w.runs[i]; ends[r.ID] != nil {
			return w.src.errorf(r.line, "the execution has task %s, which the specification has not", quote(r.ID))
		}
	}
	return w.edges(byName)
}

// add adds a task with its files.
func (w *wfReader) add(t *wfTask, end wfEnd, sizes map[string]int64) error {
	n, err := w.b.task(t.ID, t.kind(end), t.line)
	if err != nil {
		return err
	}
	for _, side := range []struct {
		names []string
		add   func(t int32, origin string, size int64, line int) error
	}{{t.Inputs, w.b.input}, {t.Outputs, w.b.output}} {
		for _, name := range side.names {
			size, ok := sizes[name]
			if !ok {
				size = -1
			}
			if err := side.add(n, name, size, t.line); err != nil {
				return err
			}
		}
	}
	for _, u := range t.Files {
		if err := w.use(n, t, u); err != nil {
			return err
		}
	}
	return w.end5(n, t, end)
}

// end5 reads the execution's entry of a task.
func (w *wfReader) end5(n int32, t *wfTask, end wfEnd) error {
	stated := end.Seconds
	if stated == "" {
		stated = end.Runtime
	}
	if stated == "" {
		w.b.traps.add(TrapUntimed, "%s", t.ID)
	} else {
		seconds, err := stated.Float64()
		if err != nil {
			seconds = math.Inf(1)
		}
		if err := w.b.cost(n, seconds, t.line); err != nil {
			return err
		}
	}
	if end.Cores == "" {
		return nil
	}
	cores, err := end.Cores.Float64()
	if err != nil || math.IsNaN(cores) || cores < 0 || cores > CPUsMax {
		return w.src.errorf(t.line, "task %s: coreCount %s makes no sense: at most %d", quote(t.ID), quote(end.Cores.String()), CPUsMax)
	}
	w.b.g.Tasks[n].Need.CPUs = int32(math.Ceil(cores))
	return nil
}

// use is a file of a task up to 1.4.
func (w *wfReader) use(n int32, t *wfTask, u wfUse) error {
	stated := u.Bytes
	if stated == "" {
		stated = u.Size
	}
	size := int64(-1)
	if stated != "" {
		var err error
		if size, err = w.b.size(t.ID, u.Name, stated, t.line); err != nil {
			return err
		}
	}
	switch u.Link {
	case "input":
		return w.b.input(n, u.Name, size, t.line)
	case "output":
		return w.b.output(n, u.Name, size, t.line)
	}
	return w.src.errorf(t.line, "task %s: the file %s is linked as %s, not as input or output", quote(t.ID), quote(u.Name), quote(u.Link))
}

// kind is the program of a task, else its name. Nextflow's traces have whole scripts in
// place of the program.
func (t *wfTask) kind(end wfEnd) string {
	var command struct {
		Program string `json:"program"`
	}
	if json.Unmarshal(end.Command, &command) == nil {
		if _, plain := plainWords(command.Program); plain && !strings.ContainsAny(command.Program, " \t") {
			return path.Base(command.Program)
		}
	}
	if t.Category != "" {
		return t.Category
	}
	return t.Name
}

func (w *wfReader) sizes() (map[string]int64, error) {
	sizes := make(map[string]int64, len(w.files))
	for _, f := range w.files {
		if f.Bytes == "" {
			continue
		}
		size, err := w.b.size("", f.ID, f.Bytes, f.line)
		if err != nil {
			return nil, err
		}
		if old, twice := sizes[f.ID]; twice && old != size {
			return nil, w.src.errorf(f.line, "the file %s is there twice, with %d and with %d bytes", quote(f.ID), old, size)
		}
		sizes[f.ID] = size
	}
	return sizes, nil
}

// edges declares the edges, which both parent and child may name.
func (w *wfReader) edges(byName map[string]string) error {
	id := func(name string) string {
		if _, ok := w.b.tasks[name]; !ok && byName[name] != "" {
			return byName[name]
		}
		return name
	}
	type pair struct{ parent, child string }
	both := map[pair]uint8{}
	for i := range w.tasks {
		t := &w.tasks[i]
		for _, p := range t.Parents {
			if err := w.b.after(int32(i), id(p), t.line); err != nil {
				return err
			}
			both[pair{id(p), t.ID}] |= 1
		}
	}
	for i := range w.tasks {
		t := &w.tasks[i]
		for _, c := range t.Children {
			child, ok := w.b.tasks[id(c)]
			if !ok {
				return w.src.errorf(t.line, "task %s: its child %s is not in this file", quote(t.ID), quote(c))
			}
			if err := w.b.after(child, t.ID, t.line); err != nil {
				return err
			}
			e := pair{t.ID, id(c)}
			if both[e] == 0 {
				w.b.traps.add(TrapOneSided, "%s to %s", t.ID, id(c))
			}
			both[e] |= 2
		}
	}
	for i := range w.tasks {
		t := &w.tasks[i]
		for _, p := range t.Parents {
			if e := (pair{id(p), t.ID}); both[e] == 1 {
				w.b.traps.add(TrapOneSided, "%s to %s", e.parent, e.child)
				both[e] = 3
			}
		}
	}
	return nil
}
