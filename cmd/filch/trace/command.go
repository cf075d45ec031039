package trace

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/clocks"
	"github.com/filch-hpc/filch/cmd/filch/eventlog"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// Command is filch trace.
func Command(g *cli.Global) *cobra.Command {
	path := ""
	c := &cobra.Command{
		Use:     "trace JOB -o FILE",
		GroupID: "jobs",
		Short:   "write where the time of a job went, for Perfetto or Chrome",
		Long: `Writes the life of a job as a picture: a row for each node and slot, a bar for each task
or each rank of a run, with the stages of files and of the launch; an arrow for each steal and
for files that moved; how many tasks ran. A FILE that ends in .json is for chrome://tracing and for https://ui.perfetto.dev, which
also opens a file that ends in .pftrace: that file is smaller, and for many tasks.

A launch has these stages: the wait for slots; the gather, where a run takes slots of other
nodes; the launch, from the order to the begin of the ranks on each node; the wire-up, until the
ranks of the node have left the first fence of MPI, which programs without MPI do not have; the
time that the ranks run; the end.

The bars of tasks come from the records of ended tasks: of each task, its last attempt, in the
row of each of its slots. The bars of the ranks of runs and gangs, the wire-up, and the steals, come
from the nodes, which keep their last events only: a gang whose events are gone has a bar on
each node of its ranks. The clocks of the nodes are measured, and a clock that differs is
corrected.`,
		Example: "  filch trace 7 -o t.pftrace\n  filch trace last -o t.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if path == "" {
				return ui.Misused(filch.Errorf(filch.Invalid, "filch trace needs a file to write: -o FILE").WithHint("filch trace %s -o trace.json, or trace.pftrace for many tasks", args[0]))
			}
			if !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".pftrace") {
				return ui.Misused(filch.Errorf(filch.Invalid, "-o FILE must end in .json or .pftrace"))
			}
			conn, ids, err := g.Jobs(args)
			if err != nil {
				return err
			}
			defer conn.Close()
			return write(conn, ids[0], path)
		},
	}
	c.Flags().StringVarP(&path, "output", "o", "", "write to `FILE`, which ends in .json or .pftrace")
	return c
}

// write writes the trace of a job. A file that could not be written whole is removed.
func write(c *client.Client, id filch.JobID, path string) error {
	var info launcher.JobInfo
	if err := cli.Ask(c, cli.QueryWait, &info, wire.VerbInfo, id.String()); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o666)
	if err != nil {
		return filch.Errorf(filch.Invalid, "cannot write %s: %s", ui.Clean(path), ui.Cause(err))
	}
	w := &writer{conn: c, info: &info, clocks: clocks.Measure(c)}
	buffer := bufio.NewWriterSize(f, 1<<18)
	w.paint = painter{out: sinkOf(path, buffer, info.Submit), job: id, step: int64(max(info.Elapsed, 0) * 1e9 / maxCounts)}
	err = errors.Join(w.write(), w.paint.out.end(), f.Close())
	if err != nil {
		_ = os.Remove(path)
		var told *filch.Error
		if errors.As(err, &told) {
			return told
		}
		return filch.Errorf(filch.Unavailable, "cannot write the trace %s: %s", ui.Clean(path), err.Error())
	}
	w.say()
	return nil
}

// maxCounts is about how many counts a node has.
const maxCounts = 2000

func sinkOf(path string, out *bufio.Writer, start int64) sink {
	if strings.HasSuffix(path, ".json") {
		return newChrome(out, start)
	}
	return newPerfetto(out, start)
}

// writer collects the parts of a trace.
type writer struct {
	conn   *client.Client
	info   *launcher.JobInfo
	clocks clocks.Clocks
	paint  painter

	ranks eventlog.Ranks

	tasks, without int64  // ended tasks; tasks without a span
	gangs          bool   // some tasks are gangs
	partly         int64  // gangs not drawn on all of their nodes
	steals         int64  // drawn
	transfers      int64  // likewise
	lost           uint64 // events that nodes have dropped
	silent         bool   // events could not be read
}

func (w *writer) write() error {
	if cli.IsTasks(w.info) {
		w.readEvents(w.taskEvent)
		return w.writeTasks()
	}
	return w.writeRun()
}

// readEvents hands out the events of the job that the nodes remember.
func (w *writer) readEvents(take func(node filch.NodeName, at int64, e *events.Event)) {
	another, err := w.conn.Another()
	if err != nil {
		w.silent = true
		return
	}
	defer another.Close()
	r := &eventlog.Reader{
		Job:  w.info.ID.String(),
		Idle: func() error { return nil },
		Lost: func(_ filch.NodeName, n uint64) { w.lost += n },
		Event: func(node filch.NodeName, e *events.Event) error {
			take(node, w.clocks.Correct(node, e.UnixNS), e)
			return nil
		},
	}
	w.silent = r.Run(another) != nil
}

// taskEvent takes in an event of a job of tasks.
func (w *writer) taskEvent(node filch.NodeName, at int64, e *events.Event) {
	w.ranks.Take(node, at, e)
	if e.Kind == events.StealWon {
		w.steals++
		w.paint.steal(node, e.Peer, at, e.Count)
	}
}

// told is an error of the sorter, as people see it.
func told(err error) error {
	if err != nil {
		return filch.Errorf(filch.Unavailable, "%s", err.Error())
	}
	return nil
}

// writeTasks draws the tasks with a recorded end.
func (w *writer) writeTasks() error {
	job, err := taskrecords.Open(w.conn, w.info.ID)
	if err != nil {
		return err
	}
	w.gangs = job.Spec.Gangs()
	s := newSorter()
	defer s.close()
	files := newTransfers(job)
	if err := job.Each(func(i int32, t *record.Task) error { return w.add(s, files, i, job.Spec.Name(i), t) }); err != nil {
		return err
	}
	w.without = int64(job.Rec.Total) - w.tasks
	if err := s.each(w.paint.span); err != nil {
		return err
	}
	w.paint.close()
	w.transfers, err = files.draw(job, &w.paint)
	return err
}

// add adds the last attempt of a task.
func (w *writer) add(s *sorter, files *transfers, index, name int32, t *record.Task) error {
	if t.Began == 0 || !t.State.Final() || t.By.Node == "" {
		return nil
	}
	begin := w.clocks.Correct(t.By.Node, t.Began*1e3)
	p := span{
		Begin: begin, End: begin + max(t.TookUS, 0)*1e3, Task: name,
		Try: int32(t.Attempt), Code: t.Code, State: t.State, Rank: noRank,
	}
	if t.Stages != nil {
		p.Queued, p.In, p.Out = int64(t.Stages.Queued), int64(t.Stages.In), int64(t.Stages.Out)
	}
	w.tasks++
	nodes, more := record.NodesOf(t.Nodes)
	if len(nodes) == 0 {
		nodes = []filch.NodeName{t.By.Node}
	}
	if w.gangs && (len(t.Nodes) == 0 || more > 0) {
		w.partly++
	}
	p.Node = w.paint.row(nodes[0]) // has the outputs of a gang
	files.add(index, &p, t.Bytes)
	if !w.gangs {
		return told(p.in(&t.Slots, s.add))
	}
	drawn := map[filch.NodeName]bool{} // by the ranks
	for _, e := range w.ranks.Of(name, begin) {
		drawn[e.Node] = true
		if err := w.addRank(s, &p, &e); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		p.Node = w.paint.row(n)
		if drawn[n] {
			continue
		}
		if err := told(p.in(&t.Slots, s.add)); err != nil {
			return err
		}
	}
	return nil
}

// say says what the trace has, and what it lacks.
func (w *writer) say() {
	if cli.IsTasks(w.info) {
		text := fmt.Sprintf("%s on %s, %s", filch.Plural(w.tasks, "task"), filch.Plural(len(w.paint.nodes), "node"), filch.Plural(w.steals, "steal"))
		if w.transfers > 0 {
			text += ", files moved " + filch.Plural(w.transfers, "time")
		}
		if w.partly > 0 {
			text += fmt.Sprintf("; of %s the records do not have all nodes", filch.Plural(w.partly, "gang"))
		}
		if w.without > 0 {
			text += fmt.Sprintf("; %s without a recorded start and end", filch.Plural(w.without, "task"))
		}
		ui.Say(text)
	}
	if w.silent {
		ui.Warn("the steals and the ranks are missing: the nodes' events could not be read")
	}
	if w.paint.astray > 0 {
		ui.Warn(fmt.Sprintf("%d bars are not in the rows of their slots: the times of the records overlap there", w.paint.astray))
	}
	ui.Say(w.clocks.String())
}
