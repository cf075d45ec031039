package tasks

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// flow is an ended workflow, and the tasks of the workflow to run again.
type flow struct {
	*past
	order launcher.TaskOrder
	extra *launcher.OrderExtra
	nodes []record.GraphNode
	items []launcher.TaskItem
	marks []workflow.Mark
	again []int32        // indices of the old job, in order
	stay  map[int32]bool // tasks that stay cancelled, and tasks that cannot run without these
	index map[int32]int32
	live  map[filch.NodeName]bool
}

// rerunWorkflow submits the failed tasks of a workflow, and brings their results.
func (p *past) rerunWorkflow(g *cli.Global, show showFlags) error {
	f := &flow{past: p, index: map[int32]int32{}}
	live, local, err := liveNodes(p.Conn)
	if err != nil {
		return err
	}
	f.live = live
	if err := f.load(); err != nil {
		return err
	}
	gr := f.order.Graph
	if gr.Origin != local && !gr.InPlace {
		return filch.Errorf(filch.Invalid, "the folder of job %d is on node %s: run filch retry there (after filch up, if its launcher is gone)", p.ID, gr.Origin)
	}
	f.warnChanged()
	if err := f.choose(); err != nil {
		return err
	}
	if len(f.again) == 0 {
		p.nothing()
		return nil
	}
	if len(p.left) > 0 {
		ui.Say(fmt.Sprintf("of job %d, %s: filch retry --cancelled %[1]d runs these too", p.ID, p.stays()))
	}
	s := &submit.Job{
		Name: p.Rec.Name, Ticket: filch.Ticket{Class: p.Rec.Ticket.Class}, Spec: *p.Spec, Follow: true, Conditions: p.later,
	}
	for _, i := range f.again {
		if err := f.addNode(s, i); err != nil {
			return err
		}
	}
	s.Total = int32(len(s.Nodes))
	gr.Earlier = append(gr.Earlier, p.ID)
	done := launcher.TasksBefore{Job: p.ID, Done: p.Rec.Total - s.Total - int32(len(f.stay)), Total: p.Rec.Total}
	if b := f.extra.Before; b != nil { // the whole workflow counts
		done.Done, done.Total, done.Earlier = min(b.Done+done.Done, b.Total), b.Total, true
	}
	f.extra.Before = &done
	if s.Spec.Body, err = wire.EncodeOrder(&f.order, f.extra); err != nil {
		return err
	}
	if gr.InPlace {
		return p.submit(g, s, nil, show, nil)
	}
	return p.submit(g, s, nil, show, f.collect)
}

// liveNodes are the nodes that can be asked for files, and the name of the answering
// node.
func liveNodes(c *client.Client) (live map[filch.NodeName]bool, local filch.NodeName, err error) {
	nodes, err := cli.QueryNodes(c)
	live = map[filch.NodeName]bool{}
	for i := range nodes {
		live[nodes[i].Node] = nodes[i].State == "up" || nodes[i].State == "draining"
		if nodes[i].Local {
			local = nodes[i].Node
		}
	}
	return live, local, err
}

// load reads all of the workflow.
func (f *flow) load() error {
	o, extra, err := wire.DecodeOrder(f.Spec.Body)
	if err != nil || o.Graph == nil {
		return filch.Errorf(filch.Internal, "the record of job %d is damaged", f.ID)
	}
	f.order, f.extra = *o, extra
	next := f.Payloads([]taskrecords.Indices{{Lo: 0, Hi: f.Rec.Total}})
	for range f.Rec.Total {
		v, err := next()
		if err != nil {
			return err
		}
		n, err := record.DecodeGraphNode(v)
		var item launcher.TaskItem
		var mark workflow.Mark
		var body []byte
		if err == nil {
			mark, body, err = f.Unmarked(n.Body)
		}
		if err == nil && len(body) > 0 && body[0] == launcher.PayloadItem {
			err = wire.Unmarshal(body[1:], &item)
		}
		if err != nil {
			return filch.Errorf(filch.Internal, "a record of job %d is damaged: %s", f.ID, err.Error())
		}
		f.nodes, f.items, f.marks = append(f.nodes, n), append(f.items, item), append(f.marks, mark)
	}
	var blocks []int32
	for n := range f.Rec.Blocks() {
		blocks = append(blocks, n)
	}
	return f.past.Load(blocks)
}

// warnChanged tells that the workflow's file has changed since the job was submitted.
func (f *flow) warnChanged() {
	if f.extra.File == "" {
		return
	}
	text, err := os.ReadFile(f.extra.File)
	if sum := sha256.Sum256(text); err != nil || bytes.Equal(sum[:], f.extra.Sum) {
		return
	}
	ui.Warn(fmt.Sprintf("%s has changed since job %d was submitted: filch retry runs the commands of job %d", ui.Clean(f.extra.File), f.ID, f.ID))
	ui.Hint(fmt.Sprintf("filch workflow run --resume=%d %s runs what has changed and what did not end well", f.ID, ui.Clean(f.extra.File)))
}

// choose finds the tasks to run again: the tasks that did not end well; and other
// tasks if no node has their files any more, and the files are an input of a
// task to run again or were not brought.
func (f *flow) choose() error {
	bad, err := f.failures()
	if err != nil {
		return err
	}
	open, err := f.lostResults()
	if err != nil {
		return err
	}
	for _, r := range bad {
		for i := r.Lo; i < r.Hi; i++ {
			open = append(open, i)
		}
	}
	f.settle(bad)
	open = slices.DeleteFunc(open, func(i int32) bool { return f.stay[i] })
	set, asked := map[int32]bool{}, map[file]bool{}
	for len(open) > 0 {
		for _, i := range open {
			set[i] = true
		}
		var inputs []launcher.TaskFile
		for _, i := range open {
			for _, in := range f.items[i].Inputs {
				if key := (file{in.Job, in.Writer, in.Path}); in.Writer >= 0 && !asked[key] && (in.Job != 0 || !set[in.Writer]) {
					asked[key] = true
					inputs = append(inputs, in)
				}
			}
		}
		gone, err := f.gone(inputs)
		if err != nil {
			return err
		}
		open = open[:0]
		for _, in := range gone {
			if in.Job != 0 {
				return filch.Errorf(filch.NodeLost, "no node has %q any more, which task %d.%d wrote on node %s", in.Path, in.Job, in.Writer, in.Node).
					WithHint("filch workflow run --resume=%d FILE runs again what is missing too", f.ID)
			}
			if !set[in.Writer] {
				set[in.Writer] = true
				open = append(open, in.Writer)
			}
		}
	}
	for i := range f.Rec.Total {
		if set[i] {
			f.index[i] = int32(len(f.again))
			f.again = append(f.again, i)
		}
	}
	return nil
}

// settle finds the tasks that stay as they are: tasks that were cancelled one by one, and
// the tasks among bad that depend on such tasks.
func (f *flow) settle(bad []taskrecords.Indices) {
	f.stay = map[int32]bool{}
	for _, r := range f.left {
		for i := r.Lo; i < r.Hi; i++ {
			f.stay[i] = true
		}
	}
	seen := map[int32]bool{} // of bad: whether the task is settled
	for _, r := range bad {
		for i := r.Lo; i < r.Hi; i++ {
			seen[i] = false
		}
	}
	var cut func(int32) bool
	cut = func(i int32) bool {
		if settled, ended := seen[i]; ended && !settled {
			seen[i] = true
			if slices.ContainsFunc(f.nodes[i].Parents, cut) {
				f.stay[i] = true
				f.cut++
			}
		}
		return f.stay[i]
	}
	for i := range seen {
		cut(i)
	}
}

// gone are the files that no node has any more: their node is gone, or the nodes forgot the
// files, as they do once the files were brought.
func (f *flow) gone(files []launcher.TaskFile) (gone []launcher.TaskFile, err error) {
	if f.order.Graph.InPlace {
		return nil, nil
	}
	on := map[filch.NodeName][]launcher.TaskFile{}
	for _, in := range files {
		node := in.Node
		if in.Job == 0 {
			node = f.ranOn(in.Writer)
		}
		on[node] = append(on[node], in)
	}
	for node, files := range on {
		if !f.live[node] {
			gone = append(gone, files...)
			continue
		}
		var list []wire.StagedFile
		for _, in := range files {
			list = append(list, wire.StagedFile{Job: cmp.Or(in.Job, f.ID), Task: in.Writer, Path: in.Path})
		}
		sizes, err := stagedSizes(f.Conn, node, list)
		if err != nil {
			return nil, err
		}
		for k, in := range files {
			if sizes[k] < 0 {
				gone = append(gone, in)
			}
		}
	}
	return gone, nil
}

// file is a file that a task of the old job, or of a job before, wrote.
type file struct {
	job    filch.JobID // 0: the old job
	writer int32
	path   string
}

// read are the files that tasks of the old job read of each other.
func (f *flow) read() map[file]bool {
	read := map[file]bool{}
	for i := range f.items {
		for _, in := range f.items[i].Inputs {
			if in.Job == 0 && in.Writer >= 0 {
				read[file{0, in.Writer, in.Path}] = true
			}
		}
	}
	return read
}

// lostResults are the tasks whose results are neither in the folder nor on a node.
func (f *flow) lostResults() (lost []int32, err error) {
	read := f.read()
	var results []launcher.TaskFile
	for i := range f.items {
		for _, out := range f.items[i].Outputs {
			if !read[file{0, int32(i), out.Path}] && !f.brought(out.Path) {
				results = append(results, launcher.TaskFile{Path: out.Path, Writer: int32(i)})
			}
		}
	}
	gone, err := f.gone(results)
	for _, out := range gone {
		lost = append(lost, out.Writer)
	}
	return lost, err
}

// resultsIn is the folder that gets the results.
func (f *flow) resultsIn() string { return cmp.Or(f.extra.Results, f.order.Graph.Folder) }

// brought reports whether a result is in the folder.
func (f *flow) brought(path string) bool {
	_, err := os.Lstat(filepath.Join(f.resultsIn(), path))
	return err == nil
}

// ended is the record of a task's end, nil if the task was never started.
func (f *flow) ended(i int32) *record.Task {
	b := f.Blocks[i/record.BlockSize]
	if b == nil {
		return nil
	}
	return b.Find(uint8(i % record.BlockSize))
}

// ranOn is the node on which a task was started last.
func (f *flow) ranOn(i int32) filch.NodeName {
	if t := f.ended(i); t != nil {
		return t.By.Node
	}
	return ""
}

// addNode adds a task to the new job: a file of a task outside the new job belongs to
// the old job.
func (f *flow) addNode(s *submit.Job, i int32) error {
	old, t := f.nodes[i], f.items[i]
	n := record.GraphNode{Name: old.Name, Bytes: old.Bytes, Output: old.Output, Length: old.Length, Kind: old.Kind}
	n.Parents, n.After = old.ParentsIn(f.index)
	t.Inputs, t.Outputs = slices.Clone(t.Inputs), slices.Clone(t.Outputs)
	for k := range t.Inputs {
		in := &t.Inputs[k]
		if in.Writer < 0 || in.Job != 0 {
			continue
		}
		if at, ok := f.index[in.Writer]; ok {
			in.Writer = at
			continue
		}
		n.Bytes += max(in.Size, 0)
		if f.order.Graph.InPlace {
			in.Writer = -1
			continue
		}
		in.Job, in.Node = f.ID, f.ranOn(in.Writer)
	}
	for k := range t.Outputs {
		t.Outputs[k].Writer = f.index[i]
	}
	return addNode(s, n, t, f.marks[i], launcher.TaskRetry(old.Body), launcher.TaskNeed(old.Body))
}

// results are the files that no task of the old job reads. If the new job runs
// the file's task again, the file has the task's new number, otherwise the old
// number.
func (f *flow) results() (again, old []wire.CollectFile) {
	read := f.read()
	for i := range f.items {
		at, rerun := f.index[int32(i)]
		for _, out := range f.items[i].Outputs {
			switch {
			case read[file{0, int32(i), out.Path}] || f.stay[int32(i)]:
			case rerun:
				again = append(again, wire.CollectFile{Task: at, Path: out.Path})
			default:
				old = append(old, wire.CollectFile{Task: int32(i), Path: out.Path})
			}
		}
	}
	return again, old
}

// collect brings the results of the new job, and the results of the old job that
// were never brought. When nothing is left to be done all nodes forget the files.
func (f *flow) collect(job filch.JobID, ended error) error {
	if _, ran := ended.(ui.ExitStatus); ended != nil && !ran || ended == ui.Exit(filch.ExitDown) {
		return ended
	}
	folder := f.resultsIn()
	again, old := f.results()
	old = slices.DeleteFunc(old, func(file wire.CollectFile) bool { return f.brought(file.Path) })
	all := bring(f.Conn, job, folder, again)
	if err := bring(f.Conn, f.ID, folder, old); err != nil {
		all = err
	}
	switch {
	case all != nil:
		return unbrought(job, "FILE", ended, all)
	case ended != nil:
		ui.Hint(fmt.Sprintf("filch retry %d runs the rest; until then the nodes keep the files of the job", job))
		return ended
	}
	return unstage(f.Conn, append(f.order.Graph.Earlier, job))
}
