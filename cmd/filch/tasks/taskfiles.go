package tasks

import (
	"cmp"
	"hash/maphash"
	"path/filepath"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// taskFiles are the file names of -i, -o and -e of a job of tasks. A name may
// hold conversions (%t), which the node of a task fills in, and replacement
// strings ({1}), which are filled in here, from the values of the task.
type taskFiles struct {
	in, out, err string
	bag          *workflow.Bag // nil: the client does not know the values of the tasks
	node         bool          // the nodes fill in the replacement strings
	gangs        bool          // %t is the rank
}

// patterns are the options about files, for tasks with the values of a bag,
// or for tasks whose lines or numbers the nodes fill in.
func (f *orderFlags) patterns(bag *workflow.Bag, node bool) taskFiles {
	named := func(pattern string) string {
		if workflow.HasPlaces(f.name) {
			pattern = output.WithName(pattern, f.name)
		}
		return pattern
	}
	return taskFiles{in: named(f.stdin), out: named(f.stdout), err: named(f.stderr), bag: bag, node: node}
}

// files reads the options about files into the order, and refuses options with
// which tasks, if there are many, would write over each other's output.
func (f *orderFlags) files(o *launcher.TaskOrder, many bool, files taskFiles) error {
	o.Stdin, o.Stdout, o.Stderr = files.in, files.out, files.err
	switch f.openMode {
	case "append", "a":
		o.Append = true
	case "truncate", "t", "":
	default:
		return filch.Errorf(filch.Invalid, "--open-mode %q is not append or truncate", f.openMode)
	}
	if f.worker {
		if f.stdin+f.stdout+f.stderr != "" {
			return filch.Errorf(filch.Invalid, "-i, -o and -e do not go with --worker: a worker reads its tasks on standard input and answers on standard output").
				WithHint("filch logs shows the worker's standard error")
		}
		return nil
	}
	for _, p := range files.named() {
		if p.option != "-i" && f.stdin != "" && filepath.Clean(p.text) == filepath.Clean(f.stdin) && !strings.HasPrefix(p.text, "/dev/") {
			return filch.Errorf(filch.Invalid, "-i %s and %s %s are the same file: a task would empty its input before reading", f.stdin, p.option, p.text)
		}
		if err := files.check(p); err != nil {
			return err
		}
		if p.option == "-i" || o.Append || !many {
			continue
		}
		if err := files.distinct(p); err != nil {
			return err
		}
	}
	return nil
}

// appends reports whether tasks may share a file.
func (f *orderFlags) appends() bool { return f.openMode == "append" || f.openMode == "a" }

// makesMany reports whether the sources may have more than one task.
func (f *sourceFlags) makesMany(bag *workflow.Bag) (bool, error) {
	switch {
	case f.eachLine != "" || f.fromJSON != "":
		return true, nil
	case bag != nil:
		return bag.Len() > 1, nil
	case f.array != "":
		a, err := readArray(f.array)
		return a.Len() > 1, err
	}
	return false, nil
}

// filePattern is the file name in an option.
type filePattern struct{ option, text string }

// named are the names that are files.
func (t *taskFiles) named() (all []filePattern) {
	for _, p := range []filePattern{{"-i", t.in}, {"-o", t.out}, {"-e", t.err}} {
		isFile := p.text != "" && p.text != launcher.NoFile && (p.option != "-e" || p.text != "-" && p.text != t.out)
		if isFile {
			all = append(all, p)
		}
	}
	return all
}

// check refuses replacement strings without a value.
func (t *taskFiles) check(p filePattern) error {
	switch {
	case !workflow.HasPlaces(p.text):
		return nil
	case t.node:
		_, err := workflow.NewTemplate([]string{p.text}, 1, false)
		return err
	case t.bag == nil:
		return filch.Errorf(filch.Invalid, "cannot fill in %s %s: the tasks have no values (values follow :::)", p.option, p.text).
			WithHint("%s stands for the number of a task, as in out.%[1]s", t.number())
	case strings.Contains(p.text, "{%}"):
		return filch.Errorf(filch.Invalid, "cannot fill in %s %s: {%%} is known only when a task starts", p.option, p.text).WithHint("use {#} or %s", t.number())
	}
	_, err := t.fill(p.text, 0)
	return err
}

// number is the conversion that stands for the number of a task.
func (t *taskFiles) number() string {
	if t.gangs { // %t is the rank
		return "%a"
	}
	return "%t"
}

// distinct refuses a file name that two tasks would share.
func (t *taskFiles) distinct(p filePattern) error {
	filled := t.node && workflow.HasPlaces(p.text) // compared when the values are read
	if filled || strings.HasPrefix(p.text, "/dev/") || output.PerTask(p.text, t.gangs) || strings.Contains(p.text, "{#}") && t.bag != nil {
		return nil
	}
	if t.bag == nil || !workflow.HasPlaces(p.text) {
		return filch.Errorf(filch.Invalid, "%s %s is the same file for all tasks: each task would overwrite the output of the others", p.option, p.text).WithHint(distinctHint, t.number())
	}
	type named struct {
		hash uint64
		task int64
	}
	seed, all := maphash.MakeSeed(), make([]named, t.bag.Len())
	for i := range all {
		name, err := t.fill(p.text, int64(i))
		if err != nil {
			return err
		}
		all[i] = named{maphash.String(seed, name), int64(i)}
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.task, b.task)) })
	first, second := int64(-1), int64(-1) // the first two tasks with the same name
	for k := 1; k < len(all); k++ {
		if a := all[k-1].task; all[k].hash == all[k-1].hash && (first < 0 || a < first) {
			first, second = a, all[k].task
		}
	}
	if first < 0 {
		return nil
	}
	name, err := t.fill(p.text, first)
	if err != nil {
		return err
	}
	return sameFile(p, name, first+1, second+1)
}

// sameFile is the error for a file of two tasks, counted from 1.
func sameFile(p filePattern, name string, first, second int64) error {
	return filch.Errorf(filch.Invalid, "%s %s is %s both for task %d and for task %d: one task would overwrite the output of the other", p.option, p.text, name, first, second).
		WithHint(distinctHint, "{#}")
}

const distinctHint = "put the task's number into the name, as in out.%s; or use --open-mode=append for one file"

// fill makes the pattern of a task, counted from 0: fill inserts the task's
// values, and leaves the conversions. Text inside a value is no conversion.
func (t *taskFiles) fill(pattern string, i int64) (string, error) {
	values, err := t.bag.Values(i)
	if err != nil {
		return "", err
	}
	return fillName(pattern, values, i+1)
}

// fillName makes the name of a file of a task, counted from 1.
func fillName(pattern string, values []string, number int64) (string, error) {
	safe, ok := output.Literal(pattern, values)
	if !ok {
		return "", filch.Errorf(filch.Invalid, "cannot name a file of task %d by %s: a value with a backslash does not go with a conversion", number, pattern).WithHint("use {#} in place of %s", "%t")
	}
	return workflow.Template{}.Fill(pattern, safe, number)
}

// streams are the files of a task that differ by its values; nil: none differs.
func (t *taskFiles) streams(i int64) (*launcher.Streams, error) {
	s, own := launcher.Streams{}, false
	for _, f := range []struct {
		pattern string
		to      *string
	}{{t.in, &s.Stdin}, {t.out, &s.Stdout}, {t.err, &s.Stderr}} {
		if !workflow.HasPlaces(f.pattern) {
			continue
		}
		var err error
		if *f.to, err = t.fill(f.pattern, i); err != nil {
			return nil, err
		}
		if *f.to == launcher.NoFile || *f.to == "-" {
			*f.to = "./" + *f.to // a value, and so the name of a file
		}
		own = true
	}
	if !own {
		return nil, nil
	}
	return &s, nil
}
