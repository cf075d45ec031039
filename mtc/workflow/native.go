package workflow

import (
	"slices"
	"strings"
)

// Filch's own form, in YAML or JSON; docs/workflows.md describes it.
//
//	filch: 1
//	name: mosaic
//	defaults: {cpus: 1, retries: 1}
//	tasks:
//	  project-1:
//	    run: mProject raw1.fits p1.fits region.hdr
//	    inputs: [raw1.fits, region.hdr]
//	    outputs: [p1.fits]

// nativeVersion is the form's version.
const nativeVersion = "1"

// native reads a file of our own form.
type native struct {
	src      source
	b        *builder
	env      []string // of every task
	defaults *node
}

var (
	fileKeys = []string{"filch", "name", "env", "defaults", "tasks"}
	needKeys = []string{"cpus", "mem", "gpus", "time_limit", "time", "retries", "retry_delay", "retry_codes", "once", "nodelist", "exclude", "constraint", "resource", "nodes", "ranks_per_node", "mpi", "env"}
	taskKeys = append([]string{"name", "run", "kind", "inputs", "outputs", "after", "stdin", "stdout", "stderr", "ranks", "outputs_from"}, needKeys...)
)

// fitsNative refuses an overlong file of our own form.
func fitsNative(src source, text []byte) error {
	if len(text) > NativeMax {
		return src.errorf(0, "it has more than %s", Bytes(NativeMax))
	}
	return nil
}

// readNative reads a file of our own form in JSON.
func readNative(src source, text []byte, all *problems) (*Graph, error) {
	j := newJSONText(src, text)
	root, err := (&tree{src: src}).json(j, 0)
	if err == nil {
		err = j.end()
	}
	if err != nil {
		return nil, err
	}
	for _, p := range root.pairs {
		if p.key == "cwlVersion" { // else each key of the file is an error
			return nil, src.errorf(p.line, "the file is in the Common Workflow Language, which filch does not read").WithHint("filch reads its own format, WfFormat and Pegasus DAX")
		}
	}
	n := &native{src: src, b: newBuilder(src, false)}
	n.b.all = all
	if err := n.file(&root); err != nil {
		return nil, err
	}
	g, err := n.b.finish()
	if err != nil {
		return n.b.g, err
	}
	g.Format = "filch " + nativeVersion
	return g, nil
}

// keys refuses a map with an unknown key.
func (n *native) keys(m *node, what string, known []string) error {
	if m.shape != shapeMap {
		return n.src.errorf(m.line, "%s is %s, not a map", what, m.shape)
	}
	for _, p := range m.pairs {
		if slices.Contains(known, p.key) {
			continue
		}
		err := n.src.errorf(p.line, "%s has the unknown key %s", what, quote(p.key))
		if near := nearest(p.key, slices.Values(known)); near != "" {
			err = err.WithHint("did you mean %s?", near)
		} else {
			err = err.WithHint("known are %s", strings.Join(known, ", "))
		}
		if err := n.problem(err); err != nil {
			return err
		}
	}
	return nil
}

// problem is the error itself, or nil if the caller goes on to find all errors.
func (n *native) problem(err error) error {
	if n.b == nil {
		return err
	}
	return n.b.problem(err)
}

func (m *node) find(key string) *node {
	for i := range m.pairs {
		if m.pairs[i].key == key {
			return &m.pairs[i].value
		}
	}
	return nil
}

func (n *native) file(root *node) error {
	if root.shape != shapeMap {
		return n.src.errorf(root.line, "this is %s, not a workflow: it begins with \"filch: %s\" and has tasks", root.shape, nativeVersion)
	}
	if err := n.keys(root, "a workflow", fileKeys); err != nil {
		return err
	}
	version := root.find("filch")
	var err error
	switch {
	case version == nil:
		err = n.src.errorf(root.line, "the format is not stated: \"filch: %s\" is missing", nativeVersion)
	case version.text != nativeVersion:
		err = n.src.errorf(version.line, "version %s of the form is not known: this is %s", quote(version.text), nativeVersion)
	}
	if err != nil {
		if err := n.problem(err); err != nil {
			return err
		}
	}
	if err := n.head(root); err != nil {
		return err
	}
	tasks := root.find("tasks")
	if tasks == nil {
		return n.src.errorf(root.line, "it has no tasks")
	}
	return n.tasks(tasks)
}

// head reads the parts of a file besides the tasks.
func (n *native) head(root *node) (err error) {
	if name := root.find("name"); name != nil {
		text, err := n.text(name, "name")
		if err == nil && (len(text) > NameMax || strings.ContainsFunc(text, isControl)) {
			err = n.src.errorf(name.line, "the name %s is too long, or holds control characters", quote(text))
		}
		if err != nil {
			if err := n.problem(err); err != nil {
				return err
			}
		}
		n.b.g.Name = text
	}
	if n.defaults = root.find("defaults"); n.defaults != nil {
		if v := n.defaults.find("ranks"); v != nil {
			err := n.src.errorf(v.line, "defaults: ranks is no default: a task without ranks is one process").WithHint("write ranks in each task that is a gang")
			return n.problem(err)
		}
		if err := n.keys(n.defaults, "defaults", needKeys); err != nil {
			if err := n.problem(err); err != nil {
				return err
			}
			n.defaults = nil // no map
		}
	}
	if env := root.find("env"); env != nil {
		if n.env, err = n.environment(env, nil); err != nil {
			return n.problem(err)
		}
	}
	return nil
}

// tasks reads a map from names to tasks, or a list of tasks with names.
func (n *native) tasks(all *node) error {
	switch all.shape {
	case shapeMap:
		for i := range all.pairs {
			p := &all.pairs[i]
			var err error
			if name := p.value.find("name"); name != nil {
				err = n.src.errorf(name.line, "task %s: its name is its key; a name belongs to tasks in a list", quote(p.key))
			} else {
				err = n.task(p.key, p.line, &p.value)
			}
			if err := n.problem(err); err != nil {
				return err
			}
		}
	case shapeList:
		for i := range all.items {
			item := &all.items[i]
			var err error
			text := ""
			if name := item.find("name"); name == nil {
				err = n.src.errorf(item.line, "task %d of the list has no name", i+1)
			} else if text, err = n.text(name, "name"); err == nil {
				err = n.task(text, item.line, item)
			}
			if err := n.problem(err); err != nil {
				return err
			}
		}
	default:
		return n.src.errorf(all.line, "tasks are %s, not a map or a list", all.shape)
	}
	return nil
}

func (n *native) task(name string, line int, m *node) error {
	t, err := n.b.task(name, "", line)
	if err != nil {
		return err
	}
	what := "task " + quote(name)
	if err := n.keys(m, what, taskKeys); err != nil {
		return err
	}
	task := &n.b.g.Tasks[t]
	for _, part := range []func() error{
		func() error { return n.run(task, what, m) },
		func() error { return n.needs(task, what, m) },
		func() error { return n.gang(task, what, m) },
		func() error { return n.uses(t, what, m) },
		func() error { return n.parents(t, what, m) },
	} {
		if err := n.problem(part()); err != nil {
			return err
		}
	}
	return nil
}

// parents reads the tasks to wait for.
func (n *native) parents(t int32, what string, m *node) error {
	after := m.find("after")
	if after == nil {
		return nil
	}
	names, lines, err := n.texts(after, what+": after")
	for i := range names {
		if err == nil {
			err = n.b.after(t, names[i], lines[i])
		}
	}
	return err
}

// run reads the command.
func (n *native) run(task *Task, what string, m *node) error {
	run := m.find("run")
	if run == nil {
		return n.src.errorf(m.line, "%s has no run: the command is missing", what)
	}
	argv, _, err := n.argv(run, what)
	if err != nil {
		return err
	}
	task.Run.Argv = argv
	task.Kind = program(argv)
	if kind := m.find("kind"); kind != nil {
		if task.Kind, err = n.text(kind, what+": kind"); err != nil {
			return err
		}
		if len(task.Kind) > NameMax || strings.ContainsFunc(task.Kind, isControl) {
			return n.src.errorf(kind.line, "%s: its kind is too long, or holds control characters", what)
		}
	}
	task.Run.Env, err = n.taskEnv(what, m)
	if err != nil {
		return err
	}
	bytes := 0
	for _, s := range slices.Concat(argv, task.Run.Env) {
		bytes += len(s) + 1
	}
	if bytes > TextMax {
		return n.src.errorf(run.line, "%s: its command and environment have %d bytes, at most %d", what, bytes, TextMax)
	}
	return nil
}

// argv is text, which a shell reads, or a list of words.
func (n *native) argv(run *node, what string) (argv []string, line int, err error) {
	if run.shape != shapeList {
		text, err := n.text(run, what+": run")
		if err != nil {
			return nil, 0, err
		}
		if strings.TrimSpace(text) == "" {
			return nil, 0, n.src.errorf(run.line, "%s: its run is empty", what)
		}
		return ShellArgv(text), run.line, nil
	}
	words, _, err := n.texts(run, what+": run")
	if err != nil {
		return nil, 0, err
	}
	if len(words) == 0 || words[0] == "" {
		return nil, 0, n.src.errorf(run.line, "%s: its run is empty", what)
	}
	if len(words) > WordsMax {
		return nil, 0, n.src.errorf(run.line, "%s: its run has %d words, at most %d", what, len(words), WordsMax)
	}
	return words, run.line, nil
}

// taskEnv is the environment of a task: of the file, of the defaults, its own.
func (n *native) taskEnv(what string, m *node) (env []string, err error) {
	env = n.env
	for _, from := range []*node{n.defaults, m} {
		if from == nil {
			continue
		}
		if own := from.find("env"); own != nil {
			if env, err = n.environment(own, env); err != nil {
				return nil, err
			}
		}
	}
	return env, nil
}

// environment adds the pairs of m to a copy of env.
func (n *native) environment(m *node, env []string) ([]string, error) {
	if m.shape != shapeMap {
		return nil, n.src.errorf(m.line, "env is %s, not a map", m.shape)
	}
	env = slices.Clone(env)
	for i := range m.pairs {
		p := &m.pairs[i]
		if p.key == "" || strings.ContainsAny(p.key, "=\x00") {
			return nil, n.src.errorf(p.line, "%s is no name of an environment variable", quote(p.key))
		}
		value, err := n.scalar(&p.value, "env "+quote(p.key))
		if err != nil {
			return nil, err
		}
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, p.key+"=") })
		env = append(env, p.key+"="+value)
	}
	return env, nil
}

// uses reads the files of a task. The files of a task's streams are inputs and outputs of
// the task.
func (n *native) uses(t int32, what string, m *node) error {
	run := &n.b.g.Tasks[t].Run
	for _, side := range []struct {
		key string
		add func(t int32, origin string, size int64, line int) error
	}{{"inputs", n.b.input}, {"outputs", n.b.output}} {
		list := m.find(side.key)
		if list == nil {
			continue
		}
		names, lines, err := n.texts(list, what+": "+side.key)
		if err != nil {
			return err
		}
		seen := make(map[string]bool, len(names))
		for i, name := range names {
			if seen[name] {
				return n.src.errorf(lines[i], "%s: the file %s is twice in its %s", what, quote(name), side.key)
			}
			seen[name] = true
			if err := n.problem(side.add(t, name, -1, lines[i])); err != nil {
				return err
			}
		}
	}
	for _, stream := range []struct {
		key string
		to  *string
		add func(t int32, origin string, size int64, line int) error
	}{{"stdin", &run.Stdin, n.b.input}, {"stdout", &run.Stdout, n.b.output}, {"stderr", &run.Stderr, n.b.output}} {
		v := m.find(stream.key)
		if v == nil {
			continue
		}
		name, err := n.text(v, what+": "+stream.key)
		if err != nil {
			return err
		}
		*stream.to = name
		if err := stream.add(t, name, -1, v.line); err != nil {
			return err
		}
	}
	return nil
}
