package tasks

import (
	"errors"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/columns"
	"github.com/filch-hpc/filch/cmd/filch/halt"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// listFlags are GNU parallel's options about lists.
type listFlags struct {
	implied                bool   // standard input is the list, unasked
	rows                   string // the file whose lines have columns
	colsep, header         string
	shuffle, dryRun        bool
	jobs                   int32
	delaySeconds, haltWhen string
	delay                  time.Duration
	halt                   halt.Rule
	written                columns.Written
}

// readList reads the options about lists.
func (f *listFlags) readList() (err error) {
	if f.jobs < 0 {
		return filch.Errorf(filch.Invalid, "-j %d: the number of tasks at a time is at least 0", f.jobs)
	}
	if f.header != "" && f.header != ":" {
		return filch.Errorf(filch.Invalid, "--header %q is not a colon", f.header).WithHint("--header : takes the names of the columns from the first line; --colsep splits the columns")
	}
	if f.delaySeconds != "" {
		if f.delay, err = spec.Seconds(f.delaySeconds); err != nil {
			return ofOption("delay", err)
		}
	}
	f.halt, err = halt.Read(f.haltWhen)
	return err
}

// standardInput makes standard input the list of the tasks, as xargs and GNU parallel
// do: if nobody types there, and the command has replacement strings or there is no
// command.
func (f *sourceFlags) standardInput(command []string) {
	switch asks := hasPlaces(command); {
	case len(command) > 0 && !asks:
	case !ui.IsTerminal(os.Stdin) && !ui.IsNull(os.Stdin):
		f.eachLine, f.implied = "-", true
	case asks:
		ui.Warn("nothing replaces {} and the like in the command: there is no list of values")
		ui.Hint("values follow :::, or come from --each-line, --array or standard input")
	}
}

// commandBehind refuses a command behind the values of :::, where its words would be values.
func commandBehind(args []string, end int) error {
	words := append(append([]string{"filch submit --"}, args[end+1:]...), args[:end]...)
	for i := range words[1:] {
		if word := &words[i+1]; !workflow.HasSources([]string{*word}) {
			*word = workflow.Quote(*word)
		}
	}
	return filch.Errorf(filch.Invalid, "-- is among the values after %s: the command goes before them", args[0]).WithHint("%s", ui.Clean(strings.Join(words, " ")))
}

func hasPlaces(words []string) bool { return slices.ContainsFunc(words, workflow.HasPlaces) }

// fillsOnNodes reports whether the nodes replace replacement strings: with the line, or
// with the number, that a task has there.
func (f *submitFlags) fillsOnNodes(command []string, bag *workflow.Bag) bool {
	if bag != nil || f.worker || f.builtin != "" || !f.lists(command) {
		return false
	}
	files := f.patterns(nil, true)
	return hasPlaces(command) || hasPlaces([]string{files.in, files.out, files.err, f.cwd})
}

// lists reports whether tasks have values, which the nodes fill in.
func (f *submitFlags) lists(command []string) bool {
	return f.array != "" || f.eachLine != "" || f.fromJSON != "" && len(command) > 0 || f.open && len(command) > 0
}

// listWait is the time after which a command that reads a list says so.
const listWait = 5 * time.Second

// spoken says that the command waits for standard input, when no line comes.
func (f *sourceFlags) spoken(next func() (string, error)) func() (string, error) {
	if f.eachLine != "-" {
		return next
	}
	slow := time.AfterFunc(listWait, func() {
		ui.Say("still waiting: the list of tasks comes from standard input, and no line came yet")
	})
	any := false
	return func() (string, error) {
		line, err := next()
		slow.Stop()
		if errors.Is(err, io.EOF) && f.implied && !any {
			err = filch.Errorf(filch.Invalid, "there is nothing to run: no list is given, and standard input is empty").
				WithHint("filch submit -- COMMAND; values for {} follow :::, or come from --each-line, --array or standard input")
		}
		any = true
		return line, err
	}
}

// distinctLines refuses a line that gives a task the file of another task.
func (f *submitFlags) distinctLines(next func() (string, error)) func() (string, error) {
	files := f.patterns(nil, true)
	var checked []filePattern
	for _, p := range files.named() {
		if p.option != "-i" && workflow.HasPlaces(p.text) && !f.appends() && !strings.Contains(p.text, "{#}") {
			checked = append(checked, p)
		}
	}
	if len(checked) == 0 || f.worker {
		return next
	}
	seed, task := maphash.MakeSeed(), int64(0)
	seen := map[uint64]int64{} // the number of the task with a file, by the hash of the file's name
	return func() (string, error) {
		line, err := next()
		if err != nil {
			return line, err
		}
		task++
		for _, p := range checked {
			name, err := fillName(p.text, []string{line}, task)
			if err != nil {
				return "", err
			}
			hash := maphash.String(seed, p.option+name)
			if other := seen[hash]; other > 0 {
				return "", sameFile(p, name, other, task)
			}
			seen[hash] = task
		}
		return line, nil
	}
}

// columns makes values of the columns of a list's lines, or of the values after :::.
func (f *submitFlags) columns(command []string, bag *workflow.Bag) (*workflow.Bag, error) {
	split := func(s string) []string { return []string{s} }
	if f.colsep != "" {
		at, err := regexp.Compile(f.colsep)
		if err != nil {
			return nil, filch.Errorf(filch.Invalid, "--colsep %q is not a regular expression", f.colsep).WithHint(`for example --colsep , or --colsep '\t'`)
		}
		split = func(s string) []string { return at.Split(s, -1) }
	}
	var next func() (string, error)
	switch {
	case f.eachLine != "":
		in, err := openInput(f.eachLine)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		next = f.spoken(workflow.NewLines(in, f.eachLine, false).Next)
		f.rows, f.eachLine = f.eachLine, ""
	case bag != nil && len(bag.Sources) == 1:
		values, i := bag.Sources[0].Values, int64(-1)
		next = func() (string, error) {
			if i++; i == values.Len() {
				return "", io.EOF
			}
			return values.At(i), nil
		}
	case bag != nil && f.colsep == "":
		return f.named(command, bag)
	case bag != nil:
		return nil, filch.Errorf(filch.Invalid, "--colsep splits one list: --each-line, one ::: or ::::, or standard input, and %d are given", len(bag.Sources))
	default:
		return nil, filch.Errorf(filch.Invalid, "--colsep and --header take a list of lines or values: --each-line, :::, :::: or standard input")
	}
	var names []string
	b := &workflow.Bag{}
	for row := int64(0); ; {
		line, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		parts := split(line)
		if f.header != "" && names == nil {
			parts[0] = strings.TrimPrefix(parts[0], "\ufeff") // spreadsheets begin a file so
			names = parts
			continue
		}
		if err := columns.AddRow(b, parts, row); err != nil {
			return nil, err
		}
		row++
	}
	if len(b.Sources) == 0 {
		return nil, filch.Errorf(filch.Invalid, "there are no tasks: the list is empty")
	}
	return b, f.fill(command, b, names)
}

// row is the place of the line with the columns of task i; "" if the task comes from no file.
func (f *listFlags) row(i int64) string {
	if f.header != "" {
		i++
	}
	if f.rows == "" {
		return ""
	}
	return f.rows + ":" + strconv.FormatInt(i+1, 10)
}

// named takes the first value of each of several lists as the name of the list.
func (f *submitFlags) named(command []string, bag *workflow.Bag) (*workflow.Bag, error) {
	var names []string
	b := &workflow.Bag{}
	for i := range bag.Sources {
		s := &bag.Sources[i]
		if s.Values.Len() == 0 {
			return nil, filch.Errorf(filch.Invalid, "there are no tasks: a list of values is empty")
		}
		if s.Values.Len() == 1 {
			return nil, filch.Errorf(filch.Invalid, "--header takes the name of a list from its first value, and a list has the name %q and no value", s.Values.At(0))
		}
		names = append(names, s.Values.At(0))
		b.Sources = append(b.Sources, workflow.Source{Linked: s.Linked})
		for k := int64(1); k < s.Values.Len(); k++ {
			if err := b.Sources[i].Values.Add(s.Values.At(k)); err != nil {
				return nil, err
			}
		}
	}
	return b, f.fill(command, b, names)
}

// fill puts the sources of b into the command, where the sources have names.
func (f *submitFlags) fill(command []string, b *workflow.Bag, names []string) (err error) {
	f.title = f.name
	texts := []*string{&f.stdin, &f.stdout, &f.stderr, &f.cwd, &f.name, &f.lengths.Option}
	for i := range command {
		texts = append(texts, &command[i])
	}
	f.written.Rename(texts, names)
	columns.WarnOfOthers(texts, names)
	if b.Template, err = workflow.NewTemplate(command, len(b.Sources), true); err != nil {
		return err
	}
	return b.Check()
}

// listed applies -j and --shuf to the tasks.
func (f *listFlags) listed(s *submit.Job, lines source) (source, error) {
	if f.jobs > 0 {
		if s.Spec.Cap > 0 && s.Spec.Cap != f.jobs {
			return nil, filch.Errorf(filch.Invalid, "-j %d and --array ...%%%d contradict each other", f.jobs, s.Spec.Cap)
		}
		s.Spec.Cap = f.jobs
	}
	if !f.shuffle || lines == nil {
		return lines, nil
	}
	return held(lines, func(all [][]byte) { rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] }) })
}

// ordered reads the list of the tasks to its end if the tasks have lengths of their own, and puts
// the lengths into the submission.
func (f *submitFlags) ordered(s *submit.Job, lines source) (_ source, err error) {
	switch err = f.lengths.Goes(f.open, f.shuffle, f.delay); {
	case !f.lengths.Differ || err != nil:
	case f.array != "":
		of, bad := readArray(f.array)
		if err = bad; err == nil {
			err = f.lengths.Array(of)
		}
	case lines != nil:
		lines, err = held(lines, nil)
	}
	if err == nil {
		err = f.lengths.Put(s)
	}
	return lines, err
}

// held reads a list to its end, and yields the tasks again; change may change their order.
func held(lines source, change func(all [][]byte)) (source, error) {
	var all [][]byte
	for size := int64(0); ; {
		l, err := lines()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if size += int64(len(l)); size > workflow.ListMax {
			return nil, filch.Errorf(filch.Invalid, "--shuf and the length of each task go with at most %s of tasks", workflow.Bytes(workflow.ListMax))
		}
		all = append(all, l)
	}
	if change != nil {
		change(all)
	}
	return many(int64(len(all)), func(i int64) ([]byte, error) { return all[i], nil }), nil
}
