package tasklist

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Row is a task in a list of tasks.
type Row struct {
	launcher.Task
	Number  int32  `json:"number"` // FILCH_TASK
	Name    string `json:"name,omitempty"`
	Command string `json:"command,omitempty"`
	Gang    bool   `json:"gang,omitempty"`
	Signal  int32  `json:"signal,omitempty"`
	Stderr  string `json:"stderr_last,omitempty"`
	// Of a task that has not started: the person who holds the job.
	HeldBy string `json:"held_by,omitempty"`
	// Of a workflow's waiting task: the names of the tasks in Behind.
	BehindNames []string `json:"behind_names,omitempty"`
	// Of a task with several attempts, where a single task is asked for: the ends that the nodes
	// still know.
	Ends    []AttemptEnd `json:"ends,omitempty"`
	parents []int32
	at      int32 // the index of the task in the records
}

// AttemptEnd is the end of an attempt of a task.
type AttemptEnd struct {
	Attempt filch.Attempt  `json:"attempt"`
	Node    filch.NodeName `json:"node"`
	State   string         `json:"state"`
	Code    int32          `json:"exit_code"`
	UnixNS  int64          `json:"unix_ns"`
}

// view reads the tasks of a job of tasks, block by block, from the job's records. A view
// remembers a few records only: the job may have a billion tasks.
type view struct {
	*taskrecords.Job
	order launcher.TaskOrder // zero: of built-in tasks
	extra launcher.OrderExtra
	each  map[filch.JobID]*taskrecords.Job // the jobs whose tasks the tasks of a bag wait for
	idle  filch.State                      // of a task of a bag without an end, that does not run
	zone  *record.Zone
	num   int32 // of the zone; -1 none
	parts map[int32]*record.Payload
	// of a command that the nodes fill in; nil: not made yet
	template *workflow.Template
	// ended are tasks whose ends were being recorded when their nodes were asked.
	ended map[int32]launcher.Task
	// dropped counts the tasks of an ended job whose records are gone.
	dropped int
}

// viewBlocks bounds the remembered blocks of other tasks, the parents of a task.
const viewBlocks = 256

// openView opens a job of tasks, and returns its state too.
func openView(c *client.Client, id filch.JobID) (*view, *launcher.JobInfo, error) {
	var j launcher.JobInfo
	if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.String()); err != nil {
		return nil, nil, err
	}
	if !cli.IsTasks(&j) {
		return nil, &j, ui.Misused(filch.Errorf(filch.Invalid, "job %d is a %s: it has ranks, and no tasks", id, j.Kind).WithHint("filch info %d.0-%d shows the ranks", id, max(j.Ranks, 1)-1))
	}
	p, err := taskrecords.Open(c, id)
	if err != nil {
		return nil, &j, err
	}
	v := &view{Job: p, num: -1, parts: map[int32]*record.Payload{}, ended: map[int32]launcher.Task{}}
	if o, extra, err := wire.DecodeOrder(p.Spec.Body); err == nil {
		v.order, v.extra = *o, *extra
	}
	if j.Tasks.Waiting == 0 {
		v.idle = filch.Ready
	}
	return v, &j, nil
}

// holds reports whether task i is in the list; an empty list has all tasks.
func holds(list []taskrecords.Indices, i int32) bool { return meets(list, i, i+1) }

// meets reports whether a task from lo up to hi, not included, is in the list.
func meets(list []taskrecords.Indices, lo, hi int32) bool {
	at, _ := slices.BinarySearchFunc(list, lo+1, func(r taskrecords.Indices, i int32) int { return cmp.Compare(r.Hi, i) })
	return len(list) == 0 || at < len(list) && list[at].Lo < hi
}

// rows are the tasks of the given blocks, without running tasks and without the fields
// that [view.describe] fills in.
func (v *view) rows(numbers []int32, running map[int32]bool) ([]Row, error) {
	clear(v.Blocks)
	if err := v.Load(numbers); err != nil {
		return nil, err
	}
	var list []Row
	for _, n := range numbers {
		if err := v.enter(n / record.ZoneBlocks); err != nil {
			return nil, err
		}
		b := v.Blocks[n]
		for i := n * record.BlockSize; i < min((n+1)*record.BlockSize, v.Rec.Total); i++ {
			if running[i] {
				continue
			}
			t := v.listed(i)
			if v.settle(&t, b.Find(uint8(i%record.BlockSize))) {
				list = append(list, t)
			}
		}
	}
	return list, nil
}

func (v *view) listed(i int32) Row {
	return Row{Task: launcher.Task{Job: v.ID, Index: v.Spec.Name(i)}, Number: v.Spec.Number(i), at: i}
}

// settle sets the state of a task from its entry in the block, nil for none; false: the
// record of the ended task was dropped.
func (v *view) settle(t *Row, e *record.Task) bool {
	last, ended := v.ended[t.at]
	final := e != nil && e.State.Final()
	switch {
	case ended && !final:
		t.Task = last
	case e != nil:
		t.Fill(e)
	}
	if final || ended {
		t.Signal = signalOf(&t.Task)
		v.because(t)
		return true
	}
	t.State = v.idle.String()
	spans := v.zone.Spans
	at := sort.Search(len(spans), func(k int) bool { return spans[k].Hi > t.at })
	switch {
	case at < len(spans) && spans[at].Lo <= t.at && spans[at].Void != 0:
		t.State = spans[at].Void.String()
	case v.Rec.Finished():
		v.dropped++
		return false
	}
	v.because(t)
	return true
}

// because sets why a task was cancelled, or skipped in a bag, or who holds a task that has not started.
func (v *view) because(t *Row) {
	switch state, _ := stateNamed(t.State); {
	case state == filch.Cancelled:
		t.Reason = v.Rec.Why(t.at)
	case state == filch.Skipped:
		t.Reason = eachReason(v.Rec, t.Index)
	case !state.Final() && state != filch.Running && v.Rec.Held:
		t.HeldBy = v.Rec.By
	}
}

// signalOf is the signal that ended a task, 0 if none did.
func signalOf(t *launcher.Task) int32 {
	if (t.State == filch.Killed.String() || t.State == filch.Cancelled.String()) && t.Code != nil && t.Began > 0 && *t.Code > filch.ExitSignalBase {
		return *t.Code - filch.ExitSignalBase
	}
	return 0
}

// enter reads a zone.
func (v *view) enter(num int32) error {
	if v.num == num {
		return nil
	}
	values, err := v.Read([]string{record.KeyZone(v.ID, num)})
	if err != nil {
		return err
	}
	z, err := record.DecodeZone(values[0])
	if err != nil {
		return filch.Errorf(filch.Internal, "a record of job %d is damaged: %s", v.ID, err.Error())
	}
	v.zone, v.num = z, num
	return nil
}

// hasEnds reports whether tasks of a zone or block may be in one of the states, all final.
func hasEnds(t record.Tally, states []filch.State) bool {
	var c launcher.TaskCounts
	c.OK, c.Failed, c.Killed, c.Lost, c.Skipped, c.Cancelled = t.OK, t.Failed, t.Killed, t.Lost, t.Skipped, t.Cancelled
	return slices.ContainsFunc(states, func(s filch.State) bool { return *c.Of(s) > 0 })
}

// blocksOf are the blocks of a zone that may have tasks in the states. Only the tallies
// of an ended job are complete.
func (v *view) blocksOf(zone int32, states []filch.State) (numbers []int32, err error) {
	final := v.Rec.Finished() && len(states) > 0 && !slices.ContainsFunc(states, func(s filch.State) bool { return !s.Final() })
	if final {
		i, ok := slices.BinarySearchFunc(v.Rec.Zones, zone, func(z record.ZoneTally, n int32) int { return int(z.Zone - n) })
		if !ok || !hasEnds(v.Rec.Zones[i].Tally, states) {
			return nil, nil
		}
		if err := v.enter(zone); err != nil {
			return nil, err
		}
	}
	for n := zone * record.ZoneBlocks; n < min((zone+1)*record.ZoneBlocks, v.Rec.Blocks()); n++ {
		if final {
			i, ok := slices.BinarySearchFunc(v.zone.Blocks, n, func(b record.BlockTally, n int32) int { return int(b.Block - n) })
			lo, hi := n*record.BlockSize, (n+1)*record.BlockSize
			void := slices.ContainsFunc(v.zone.Spans, func(s record.Span) bool {
				return s.Lo < hi && lo < s.Hi && slices.Contains(states, s.Void) && s.Void != 0
			})
			if !void && (!ok || !hasEnds(v.zone.Blocks[i].Tally, states)) {
				continue
			}
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// hasPayloads reports whether the tasks have payloads of their own.
func (v *view) hasPayloads() bool { return v.Spec.Payloads || v.Rec.Graph }

// describe fills in the names and commands of tasks, and which tasks of a workflow are
// ready.
func (v *view) describe(list []Row) error {
	order := make([]*Row, len(list))
	for i := range list {
		order[i] = &list[i]
	}
	slices.SortFunc(order, func(a, b *Row) int { return int(a.at - b.at) })
	need := make([]taskrecords.Indices, len(list))
	for i, t := range order {
		need[i] = taskrecords.Indices{Lo: t.at, Hi: t.at + 1}
	}
	for i, t := range order {
		var payload []byte
		if v.hasPayloads() {
			var err error
			if payload, err = v.Line(v.parts, t.at, need[i:]); err != nil {
				return err
			}
		}
		if err := v.describeOne(t, payload); err != nil {
			return err
		}
	}
	if v.Rec.Graph {
		return v.readies(list)
	}
	return v.awaits(list)
}

func (v *view) describeOne(t *Row, p []byte) error {
	if v.Rec.Graph && len(p) > 0 {
		n, err := record.DecodeGraphNode(p)
		if err != nil {
			return filch.Errorf(filch.Internal, "the record of task %d.%d is damaged: %s", v.ID, t.Index, err.Error())
		}
		t.Name, t.parents, p = n.Name, n.Parents, n.Body
	}
	t.Gang = v.Spec.Need(launcher.TaskNeed(p)).Gang.Ranks > 0
	_, p, err := v.Unmarked(p)
	if err != nil {
		return err
	}
	if len(p) > 4 && p[0] == launcher.PayloadNumber {
		t.Number, p = int32(binary.BigEndian.Uint32(p[1:])), p[5:]
	}
	own := 0 // words of a command of the task's own
	argv, line, indexed := v.order.Argv, "", len(p) == 0
	switch {
	case len(p) == 0 && len(argv) == 0:
		t.Command = builtinText(v.Spec.Body)
		return nil
	case len(p) == 0:
	case p[0] == launcher.PayloadBuiltin:
		t.Command = builtinText(p[1:])
		return nil
	case p[0] == launcher.PayloadLine && (v.order.Worker || len(argv) == 0):
		t.Command = string(p[1:])
		return nil
	case p[0] == launcher.PayloadLine:
		if line = string(p[1:]); !v.order.Fill {
			t.Command = "FILCH_LINE=" + shellWord(line) + " "
		}
	case p[0] == launcher.PayloadItem || p[0] == launcher.PayloadSlot:
		var item launcher.TaskItem
		if err := wire.Unmarshal(p[1:], &item); err != nil {
			return filch.Errorf(filch.Internal, "the record of task %d.%d is damaged: %s", v.ID, t.Index, err.Error())
		}
		if own = len(item.Argv); own > 0 {
			argv = item.Argv
		}
		if item.Own {
			argv = append([]string{"filch"}, argv...)
		}
	}
	if v.order.Fill && own == 0 {
		if argv, err = v.filled(t.Number, line, indexed); err != nil {
			return err
		}
	}
	if len(argv) == 3 && slices.Equal(argv[:2], workflow.ShellArgv("exit")[:2]) {
		t.Command += argv[2] // the line that the user gave
		return nil
	}
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = shellWord(w)
	}
	t.Command += strings.Join(words, " ")
	return nil
}

// filled is the command of a task whose node puts the value in place of {} and the like; a
// task of an array has its number as the value.
func (v *view) filled(number int32, line string, indexed bool) ([]string, error) {
	if v.template == nil {
		t, err := workflow.NewTemplate(v.order.Argv, 1, false)
		if err != nil {
			return nil, err
		}
		v.template = &t
	}
	if indexed {
		return v.template.Expand([]string{strconv.Itoa(int(number))}, int64(number), 0)
	}
	return v.template.Expand([]string{line}, int64(number)+1, 0)
}

// shellWord writes a word as a shell reads it; a word with control characters as $'...',
// byte by byte: outside UTF-8 locales, bash does not read \u as a character.
func shellWord(s string) string {
	if ui.Clean(s) == s {
		return workflow.Quote(s)
	}
	word := []byte("$'")
	for i := range len(s) {
		if s[i] == '\'' {
			word = append(word, '\\')
		}
		q := strconv.QuoteToASCII(s[i : i+1])
		word = append(word, q[1:len(q)-1]...)
	}
	return string(append(word, '\''))
}

// builtinText is the argument of --builtin for a body.
func builtinText(body []byte) string {
	switch {
	case len(body) == 1 && body[0] == launcher.BodyNoop:
		return "noop"
	case len(body) == 9 && body[0] == launcher.BodySleep:
		return "sleep:" + exactTime(time.Duration(binary.BigEndian.Uint64(body[1:])))
	}
	return ""
}

// exactTime is a text that [filch.ReadTime] reads as d: the short text, or the seconds if the
// short text is rounded.
func exactTime(d time.Duration) string {
	text := filch.ShortTime(d)
	if read, err := filch.ReadTime(text); err != nil || read != d {
		text = strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
	}
	return text
}

// readies finds the tasks of a workflow that wait for no other task.
func (v *view) readies(list []Row) error {
	for i := range list {
		t := &list[i]
		if t.State != filch.Waiting.String() && t.State != filch.Ready.String() {
			continue
		}
		t.State = filch.Ready.String()
		for _, p := range t.parents {
			if e, err := endOf(v.Job, p); err != nil {
				return err
			} else if e == nil || !e.State.Final() {
				t.State = filch.Waiting.String()
				break
			}
		}
	}
	return nil
}

// lastLines fills in the last line of standard error of tasks that have ended: of all
// tasks, or only of tasks that did not end well. Nodes without an answer are returned.
func (v *view) lastLines(list []Row, all bool) (silent []filch.NodeName) {
	byNode := map[filch.NodeName][]*Row{}
	for i := range list {
		t := &list[i]
		kept := t.Bytes > 0 || v.Rec.Graph
		if t.Code != nil && t.Node != "" && kept && (all || t.State != filch.OK.String()) {
			byNode[t.Node] = append(byNode[t.Node], t)
		}
	}
	for node, wanted := range byNode {
		for part := range slices.Chunk(wanted, wire.MaxLast) {
			at := map[int32]*Row{}
			words := make([]string, len(part))
			for i, t := range part {
				at[t.Index], words[i] = t, strconv.Itoa(int(t.Index))
			}
			var lines []wire.LastLine
			if err := cli.Ask(v.Conn, lastWait, &lines, wire.VerbLast, string(node), v.ID.String(), strings.Join(words, ",")); err != nil {
				silent = append(silent, node)
				break
			}
			for _, l := range lines {
				if t := at[l.Task]; t != nil {
					t.Stderr = l.Text
				}
			}
		}
	}
	return silent
}

// lastWait is longer than the launcher waits for another node.
const lastWait = cli.QueryWait + 2*time.Second
