package tasklist

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

const (
	// sortMost bounds the tasks that --sort keeps: the command must stay small for a job
	// of a billion tasks.
	sortMost = 1 << 16
	// pageRows bounds the tasks that are described and printed at a time.
	pageRows = 2048
)

// taskListFlags are the options of filch tasks.
type taskListFlags struct {
	states, nodes, sort, columns string
	first                        int
	asJSON, tsv, ids, joblog     bool
}

func ListCommand(g *cli.Global) *cobra.Command {
	f := &taskListFlags{}
	c := &cobra.Command{
		Use:     "tasks JOB[.TASKS]",
		GroupID: "jobs",
		Short:   "list the tasks of a bag or workflow",
		Long: `Lists the tasks of a job: first the running tasks, the longest first, then the others
by number. The time, code, memory and processor time are those of the last try. The
columns of -o:
` + columnHelp() + "\n  joblog   alone: the job log of GNU parallel, as with --joblog",
		Example: `  filch tasks last
  filch tasks 7 --state failed,killed -o task,code,stderr
  filch tasks 7 --sort memory -n 10
  filch tasks 7 --state running --node n3
  filch tasks 7 --ids --state failed | xargs filch info
  filch tasks 7 --joblog > jobs.log`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := f.lister()
			if err != nil {
				return ui.Misused(err)
			}
			conn, t, err := NamedOne(g, args[0])
			if err != nil {
				return err
			}
			defer conn.Close()
			defer l.warns.Flush()
			return l.list(conn, &t)
		},
	}
	p := c.Flags()
	p.StringVar(&f.states, "state", "", "only tasks in these `STATES`: running,failed; held are tasks that wait until a person releases the job")
	p.StringVar(&f.nodes, "node", "", "only tasks on these `NODES`: n1,n[3-5]")
	p.StringVar(&f.sort, "sort", "", "by this `COLUMN`, the largest or longest first; text from a to z")
	p.StringVarP(&f.columns, "columns", "o", "", "these `COLUMNS`, in this order: task,state,elapsed")
	p.IntVarP(&f.first, "first", "n", 0, "only the first `N`")
	p.BoolVar(&f.tsv, "tsv", false, "one line a task, with tabs; times in seconds, memory in bytes")
	p.BoolVar(&f.asJSON, "json", false, "print JSON")
	p.BoolVar(&f.ids, "ids", false, "print JOB.TASK only, a line each")
	p.BoolVar(&f.joblog, "joblog", false, "print the tasks that ended as GNU parallel's job log")
	return c
}

// lister lists tasks.
type lister struct {
	flags   *taskListFlags
	states  []filch.State
	held    bool // tasks that somebody holds are among the wanted
	nodes   []filch.NodeName
	only    []taskrecords.Indices // the named tasks, in order; none: all
	less    func(a, b *Row) int   // nil: running tasks first, then by number
	columns []*column             // nil: the usual ones
	out     *bufio.Writer
	table   *ui.Table
	shown   int
	cut     bool // more than sortMost tasks were to be sorted
	ordered int  // tasks that are sorted, of those that are kept
	silent  map[filch.NodeName]bool
	warns   ui.Fold // of silent nodes
}

// lister reads the options.
func (f *taskListFlags) lister() (*lister, error) {
	l := &lister{flags: f, out: bufio.NewWriterSize(os.Stdout, 64<<10), silent: map[filch.NodeName]bool{}}
	if f.columns == "joblog" {
		f.joblog, f.columns = true, ""
	}
	ways := 0
	for _, given := range []bool{f.tsv, f.asJSON, f.ids, f.joblog} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		return nil, filch.Errorf(filch.Invalid, "the list has one form: --tsv, --json, --ids or --joblog, and %d are given", ways)
	case f.columns != "" && ways == 1 && !f.tsv:
		return nil, filch.Errorf(filch.Invalid, "-o goes with a table and with --tsv only")
	case f.first < 0:
		return nil, filch.Errorf(filch.Invalid, "-n %d: the number of tasks is at least 0", f.first)
	}
	for word := range strings.FieldsFuncSeq(f.states, func(r rune) bool { return r == ',' || r == ' ' }) {
		if word == heldState {
			l.held = true
			continue
		}
		s, ok := stateNamed(word)
		if !ok {
			return nil, filch.Errorf(filch.Invalid, "--state %s: %q is no state", f.states, word).
				WithHint("the states are waiting, ready, running, ok, failed, killed, lost, skipped, cancelled, %s", heldState)
		}
		l.states = append(l.states, s)
	}
	var err error
	if f.nodes != "" {
		if l.nodes, err = spec.Hosts(f.nodes); err != nil {
			return nil, cli.OfOption("node", err)
		}
	}
	if f.sort != "" {
		c := columnOf(strings.ToLower(f.sort))
		if c == nil || c.less == nil {
			return nil, filch.Errorf(filch.Invalid, "--sort %s: the list cannot be sorted by that", f.sort).WithHint("--sort takes one of %s", columnNames(true))
		}
		l.less = func(a, b *Row) int { return cmp.Or(c.less(a, b), cmp.Compare(a.Index, b.Index)) }
	}
	if f.columns != "" {
		l.columns, err = pickColumns(f.columns)
	}
	return l, err
}

// heldState is the word of --state for tasks that have not started, and that somebody
// holds. The state of such a task is waiting or ready, and HeldBy names the holder.
const heldState = "held"

func stateNamed(word string) (filch.State, bool) {
	for s := filch.Waiting; s <= filch.Cancelled; s++ {
		if s.String() == word {
			return s, true
		}
	}
	return 0, false
}

// list prints the tasks of a job, or those that are named.
func (l *lister) list(c *client.Client, named *cli.JobTasks) error {
	v, j, err := openView(c, named.Job)
	if err != nil {
		return err
	}
	if l.only, err = v.Picks(named.Tasks); err != nil {
		return err
	}
	if l.columns == nil {
		l.columns = v.usualColumns()
	}
	err = l.begin()
	if err == nil {
		err = l.all(v, j)
	}
	if err == nil {
		err = l.end()
	}
	if err = cmp.Or(err, l.out.Flush()); err != nil && ui.IsBrokenPipe(err) {
		return ui.Exit(filch.ExitSignalBase + int(ui.SIGPIPE))
	}
	if err == nil && v.dropped > 0 {
		ui.Warn(fmt.Sprintf("the records of %s of job %d were dropped: the job ended long ago, and FILCH_STORE_BYTES is used up", filch.Plural(v.dropped, "task"), v.ID))
	}
	if errors.Is(err, errEnough) {
		err = l.out.Flush()
	}
	return err
}

// errEnough ends the list after -n tasks.
var errEnough = errors.New("enough tasks are shown")

// all lists the running tasks, then the others page by page.
func (l *lister) all(v *view, j *launcher.JobInfo) error {
	running := map[int32]bool{}
	var kept []Row
	take := func(list []Row) error {
		list = slices.DeleteFunc(list, func(t Row) bool { return !holds(l.only, t.at) || !l.wants(&t) })
		if l.less == nil {
			return l.print(v, list)
		}
		kept = l.keep(kept, list)
		return nil
	}
	if j.Code == nil {
		list, err := l.running(v, running)
		if err == nil {
			err = take(list)
		}
		if err != nil {
			return err
		}
	}
	first, last := int32(0), v.Rec.Blocks()
	if n := len(l.only); n > 0 {
		first, last = l.only[0].Lo/record.BlockSize, (l.only[n-1].Hi-1)/record.BlockSize+1
	}
	if onlyRunning := len(l.states) == 1 && l.states[0] == filch.Running && !l.held; onlyRunning {
		last = first
	}
	if onlyHeld := len(l.states) == 0 && l.held; onlyHeld && (!v.Rec.Held || v.Rec.Finished()) {
		last = first
	}
	size := 1 // the first rows come at once
	for zone := first / record.ZoneBlocks; zone*record.ZoneBlocks < last; zone++ {
		numbers, err := v.blocksOf(zone, l.blockStates())
		if err != nil {
			return err
		}
		numbers = slices.DeleteFunc(numbers, func(n int32) bool {
			return n < first || n >= last || !meets(l.only, n*record.BlockSize, (n+1)*record.BlockSize)
		})
		for len(numbers) > 0 {
			n := min(size, len(numbers))
			list, err := v.rows(numbers[:n], running)
			if err == nil && (v.Rec.Graph || v.Rec.Singly()) && l.picksIdle() {
				err = v.describe(list) // says which tasks are ready
			}
			if err == nil {
				err = take(list)
			}
			if err != nil {
				return err
			}
			numbers, size = numbers[n:], min(2*size, taskrecords.AtOnce)
		}
	}
	if l.less == nil {
		return nil
	}
	kept = l.largest(kept)
	if l.cut && l.flags.first != l.most() {
		ui.Warn(fmt.Sprintf("--sort shows the first %d tasks only", sortMost))
	}
	return l.print(v, kept)
}

// blockStates are the states that a wanted task may have in the records; empty: all. A held
// task is not started.
func (l *lister) blockStates() []filch.State {
	if l.held {
		return append(slices.Clone(l.states), filch.Waiting, filch.Ready)
	}
	return l.states
}

// picksIdle reports whether the list picks tasks by waiting or ready.
func (l *lister) picksIdle() bool {
	return slices.Contains(l.states, filch.Waiting) || slices.Contains(l.states, filch.Ready)
}

// keep adds tasks to those that may be shown, and forgets tasks behind all that are shown: of the
// first [lister.ordered] tasks the last is known.
func (l *lister) keep(kept, list []Row) []Row {
	most := l.most()
	for i := range list {
		if l.ordered == most && l.less(&kept[most-1], &list[i]) < 0 {
			l.cut = true
			continue
		}
		kept = append(kept, list[i])
	}
	if len(kept) >= 2*max(most, pageRows) {
		return l.largest(kept)
	}
	return kept
}

// largest sorts tasks, and keeps those that are shown first. A task is large: pointers are sorted.
func (l *lister) largest(list []Row) []Row {
	order := make([]*Row, len(list))
	for i := range list {
		order[i] = &list[i]
	}
	slices.SortFunc(order, l.less)
	l.ordered = min(len(list), l.most())
	l.cut = l.cut || len(list) > l.ordered
	kept := make([]Row, l.ordered)
	for i, t := range order[:l.ordered] {
		kept[i] = *t
	}
	return kept
}

// most is how many sorted tasks are kept.
func (l *lister) most() int {
	if l.flags.first > 0 {
		return min(l.flags.first, sortMost)
	}
	return sortMost
}

// running asks the nodes for the running tasks.
func (l *lister) running(v *view, at map[int32]bool) (list []Row, err error) {
	var r launcher.RunningTasks
	if err := cli.Ask(v.Conn, cli.QueryWait, &r, wire.VerbRunning, v.ID.String()); err != nil {
		return nil, err
	}
	for _, n := range r.Silent {
		l.isSilent(n, "its running tasks are listed as ready or waiting")
	}
	if r.More > 0 {
		ui.Warn(fmt.Sprintf("%s more run, and are listed as ready or waiting: at most %d are listed as running", filch.Plural(r.More, "task"), launcher.MaxRunning))
	}
	for k := range r.Ended {
		if i, has := v.Spec.Index(r.Ended[k].Index); has {
			v.ended[i] = r.Ended[k]
		}
	}
	copies := map[int32][]launcher.TaskCopy{}
	for _, k := range r.Tasks {
		i, has := v.Spec.Index(k.Index)
		if k.Copy {
			copies[i] = append(copies[i], launcher.TaskCopy{Node: k.Node, Took: k.Took})
			continue
		}
		if !has || i >= v.Rec.Total || at[i] {
			continue // added since, or moved while the nodes were asked
		}
		at[i] = true
		t := v.listed(i)
		t.State, t.Node, t.Attempts, t.Maybe, t.Took = filch.Running.String(), k.Node, k.Attempt, k.Maybe, k.Took
		t.Nodes = k.Nodes
		list = append(list, t)
	}
	for k := range list {
		list[k].Copies = copies[list[k].at]
	}
	return list, nil
}

func (l *lister) isSilent(n filch.NodeName, effect string) {
	if !l.silent[n] {
		l.silent[n] = true
		l.warns.Warn(fmt.Sprintf("node %s does not answer: %s", n, effect))
	}
}

// wants reports whether a task is in the list.
func (l *lister) wants(t *Row) bool {
	state, _ := stateNamed(t.State)
	picked := len(l.states) == 0 && !l.held || slices.Contains(l.states, state) || l.held && t.HeldBy != ""
	return picked && (len(l.nodes) == 0 || slices.ContainsFunc(l.nodes, t.isOn))
}

// has reports whether a column is shown.
func (l *lister) has(name string) bool {
	return slices.ContainsFunc(l.columns, func(c *column) bool { return c.name == name })
}

// print describes and prints tasks, page by page.
func (l *lister) print(v *view, list []Row) error {
	f := l.flags
	if f.first > 0 {
		list = list[:min(len(list), f.first-l.shown)]
	}
	for page := range slices.Chunk(list, pageRows) {
		described := f.asJSON || f.joblog || !f.ids && (l.has("command") || l.has("name") || l.has("number") || (v.Rec.Graph || v.Rec.Singly()) && (l.has("state") || l.has("reason")))
		if described {
			if err := v.describe(page); err != nil {
				return err
			}
		}
		if f.asJSON || !f.ids && !f.joblog && l.has("stderr") {
			for _, n := range v.lastLines(page, f.asJSON || f.columns != "") {
				l.isSilent(n, "the last lines of its tasks are not shown")
			}
		}
		if err := l.printPage(page); err != nil {
			return err
		}
		l.shown += len(page)
		if err := l.out.Flush(); err != nil {
			return err
		}
	}
	if f.first > 0 && l.shown >= f.first {
		return cmp.Or(l.end(), errEnough)
	}
	return nil
}

// begin prints what comes before the first task.
func (l *lister) begin() (err error) {
	f := l.flags
	switch {
	case f.asJSON:
		_, err = l.out.WriteString("[")
	case f.joblog:
		_, err = l.out.WriteString(joblogHead)
	case f.tsv:
		var names []string
		for _, c := range l.columns {
			names = append(names, c.name)
		}
		_, err = l.out.WriteString(strings.Join(names, "\t") + "\n")
	case !f.ids:
		l.table = &ui.Table{Right: map[int]bool{}}
		for i, c := range l.columns {
			l.table.Head, l.table.Right[i] = append(l.table.Head, strings.ToUpper(c.name)), c.right
		}
	}
	return err
}

// end prints what comes after the last task.
func (l *lister) end() (err error) {
	switch {
	case l.flags.asJSON && l.shown > 0:
		_, err = l.out.WriteString("\n]\n")
	case l.flags.asJSON:
		_, err = l.out.WriteString("]\n")
	case l.table != nil && l.shown == 0:
		_, err = l.out.WriteString(l.table.Page(os.Stdout))
	}
	return err
}

func (l *lister) printPage(page []Row) (err error) {
	f := l.flags
	for i := range page {
		t := &page[i]
		switch {
		case err != nil:
			return err
		case f.asJSON:
			err = l.printJSON(t, l.shown+i == 0)
		case f.joblog:
			_, err = l.out.WriteString(joblogLine(t))
		case f.ids:
			_, err = fmt.Fprintf(l.out, "%d.%d\n", t.Job, t.Index)
		case f.tsv:
			_, err = l.out.WriteString(l.tsvLine(t))
		default:
			var cells []string
			for _, c := range l.columns {
				cells = append(cells, cmp.Or(c.cell(t), "-"))
			}
			l.table.Add(cells...)
			l.table.AlertState(t.State)
		}
	}
	if l.table != nil && err == nil {
		_, err = l.out.WriteString(l.table.Page(os.Stdout))
	}
	return err
}

func (l *lister) tsvLine(t *Row) string {
	var cells []string
	for _, c := range l.columns {
		cell := c.plain
		if cell == nil {
			cell = c.cell
		}
		cells = append(cells, oneLine(cell(t)))
	}
	return strings.Join(cells, "\t") + "\n"
}

func (l *lister) printJSON(t *Row, first bool) error {
	b, err := json.MarshalIndent(t, "  ", "  ")
	if err != nil {
		return err
	}
	between := ",\n  "
	if first {
		between = "\n  "
	}
	_, err = l.out.WriteString(between + string(b))
	return err
}
