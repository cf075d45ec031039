package logs

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// FoldBeat is the time between two looks for lines that have waited long enough for other
// ranks.
const FoldBeat = 100 * time.Millisecond

// All as the Last of a [Target] is the last task or rank.
const All = math.MaxInt32

// Target is the wanted output of a job: of tasks or ranks from First to Last.
type Target struct {
	Job         filch.JobID
	First, Last int32
	Info        launcher.JobInfo // as of the beginning, or the end of the job
	Names       []string         // of a workflow's tasks; else nil

	// unused are nodes that did not answer at the beginning, and that have run no task of the
	// target.
	unused map[filch.NodeName]bool
	// By number: tasks that ended well after a failed attempt, and the starts of other tasks
	// with more than one; see [FindEnds] and [FindStarts].
	well   map[int32]bool
	starts map[int32]int32
	// By number: the starts of tasks that ended well while a start of the same attempt was
	// stopped; see [FindRivals].
	rivals map[int32]int32

	unrecorded unrecorded
	order      int // among the targets
}

// Find reads the facts about jobs.
func Find(c *client.Client, spans []cli.JobSpan) ([]Target, error) {
	targets := make([]Target, len(spans))
	for i, s := range spans {
		targets[i] = Target{Job: s.Job, First: s.First, Last: s.Last}
		targets[i].unrecorded.dial = c.Another
		if err := cli.Ask(c, cli.QueryWait, &targets[i].Info, wire.VerbInfo, s.Job.String()); err != nil {
			return nil, err
		}
		if err := targets[i].exists(c); err != nil {
			return nil, err
		}
	}
	findUnused(c, targets)
	return targets, nil
}

// findUnused finds the nodes that do not answer and have run no task of a target: no output
// is lost with them. With more than readTasks tasks, the reader warns of each such node.
func findUnused(c *client.Client, targets []Target) {
	var nodes []wire.NodeInfo
	if err := cli.Ask(c, cli.QueryWait, &nodes, wire.VerbNodes, wire.OnlyHere); err != nil {
		return
	}
	nodes = slices.DeleteFunc(nodes, func(n wire.NodeInfo) bool {
		return !slices.Contains([]string{filch.Gone.String(), filch.Dead.String(), filch.Left.String()}, n.State)
	})
	for i := range targets {
		t := &targets[i]
		if len(nodes) == 0 || !cli.IsTasks(&t.Info) || t.Info.Tasks.Total > readTasks {
			continue
		}
		ran, ok := ranOn(c, t)
		t.unused = map[filch.NodeName]bool{}
		for k := range nodes {
			t.unused[nodes[k].Node] = ok && !ran[nodes[k].Node]
		}
	}
}

// ranOn reads the nodes that have run tasks of a target, or may have: see
// [record.Task.RanOn]. ok is false if some records cannot be read, or if the records do not
// name all nodes. The first start of a task that still runs stands in no record yet: of a
// job that goes on, ranOn adds the owners of the ranges in which tasks were started.
func ranOn(c *client.Client, t *Target) (ran map[filch.NodeName]bool, ok bool) {
	ran, ok = map[filch.NodeName]bool{}, true
	spec, err := specOf(c, t.Job)
	if err != nil {
		return nil, false
	}
	err = eachTask(c, t, func(index int32, k *record.Task) {
		if n := spec.Name(index); n < t.First || t.Last < n {
			return
		}
		nodes, all := k.RanOn()
		for _, o := range nodes {
			ran[o.Node] = true
		}
		ok = ok && all
	})
	if err == nil && t.Info.Code == nil {
		err = t.owners(c, spec, ran)
	}
	return ran, ok && err == nil
}

// owners adds the owners of the ranges of tasks of the target in which tasks were started.
func (t *Target) owners(c *client.Client, spec *record.Spec, ran map[filch.NodeName]bool) error {
	var keys []dht.Key
	for z := range (t.Info.Tasks.Total + record.ZoneSize - 1) / record.ZoneSize {
		keys = append(keys, dht.Key(record.KeyZone(t.Job, z)))
	}
	return lookup(c, keys, func(value []byte) error {
		z, err := record.DecodeZone(value)
		if err != nil {
			return err
		}
		for _, s := range z.Spans {
			if first, last := spec.Name(s.Lo), spec.Name(max(s.Front, s.Lo+1)-1); s.Front > s.Lo && s.Void == 0 && first <= t.Last && t.First <= last {
				ran[s.Owner.Node] = true
			}
		}
		return nil
	})
}

func specOf(c *client.Client, id filch.JobID) (spec *record.Spec, err error) {
	err = lookup(c, []dht.Key{dht.Key(record.KeySpec(id))}, func(value []byte) (err error) {
		spec, err = record.DecodeSpec(value)
		return err
	})
	return spec, err
}

// eachTask reads the records of the tasks of a job, by index.
func eachTask(c *client.Client, t *Target, f func(index int32, k *record.Task)) error {
	var keys []dht.Key
	for b := range (t.Info.Tasks.Total + record.BlockSize - 1) / record.BlockSize {
		keys = append(keys, dht.Key(record.KeyBlock(t.Job, b)))
	}
	at := int32(0)
	return lookup(c, keys, func(value []byte) error {
		b := &record.Block{}
		if len(value) > 0 {
			var err error
			if b, err = record.DecodeBlock(value); err != nil {
				return err
			}
		}
		for i := range b.Tasks {
			f(at+int32(b.Offs[i]), &b.Tasks[i])
		}
		at += record.BlockSize
		return nil
	})
}

// readTasks bounds the tasks of a job whose records are read.
const readTasks = 1 << 20

// FindEnds reads which tasks ended well after a failed attempt, and how often tasks were
// started, for --failed.
func FindEnds(c *client.Client, targets []Target) {
	for i := range targets {
		t := &targets[i]
		if t.Info.Tasks.Total > readTasks {
			ui.Warn(fmt.Sprintf("job %d has more than %d tasks: failed attempts of tasks that ended well are shown too", t.Job, readTasks))
			continue
		}
		if err := t.findEnds(c); err != nil {
			ui.Warn(fmt.Sprintf("cannot read the ends of the tasks of job %d: failed attempts of tasks that ended well are shown too: %s", t.Job, ui.Cause(err)))
		}
	}
}

// Retried reports whether [FindEnds] found a task that was started more than once among
// the tasks that are shown.
func (t *Target) Retried() bool {
	for i := range t.starts {
		if t.First <= i && i <= t.Last {
			return true
		}
	}
	return false
}

func (t *Target) findEnds(c *client.Client) error {
	spec, err := specOf(c, t.Job)
	if err != nil {
		return err
	}
	t.well, t.starts = map[int32]bool{}, map[int32]int32{}
	return eachTask(c, t, func(index int32, k *record.Task) {
		n := record.Starts(k.Attempt, k.Maybe)
		t.unrecorded.add(spec, index, k)
		switch {
		case n == 1 || !k.State.Final():
		case k.State == filch.OK:
			t.well[spec.Name(index)] = true
		default:
			t.starts[spec.Name(index)] = n
		}
	})
}

// FindStarts reads how often tasks of ended jobs with retries were started, for the labels.
// Without the records, a first attempt has the label of a task with one attempt.
func FindStarts(c *client.Client, targets []Target) {
	for i := range targets {
		t := &targets[i]
		if !cli.IsTasks(&t.Info) || t.Info.Code == nil || t.Info.Tasks.Total > readTasks {
			continue
		}
		spec, err := specOf(c, t.Job)
		if err != nil || spec == nil || spec.Retries == 0 {
			continue
		}
		t.starts = map[int32]int32{}
		_ = eachTask(c, t, func(index int32, k *record.Task) {
			t.unrecorded.add(spec, index, k)
			if n := record.Starts(k.Attempt, k.Maybe); n > 1 {
				t.starts[spec.Name(index)] = n
			}
		})
	}
}

// FindRivals reads which tasks of ended jobs ended well beside a copy: the output of the start
// that was stopped is shown as such. Without the records no output is shown so.
func FindRivals(c *client.Client, targets []Target) {
	for i := range targets {
		t := &targets[i]
		if !cli.IsTasks(&t.Info) || t.Info.Code == nil || t.Info.Tasks.Total > readTasks {
			continue
		}
		spec, err := specOf(c, t.Job)
		if err != nil || spec == nil || spec.Replicas == 0 {
			continue
		}
		t.rivals = map[int32]int32{}
		_ = eachTask(c, t, func(index int32, k *record.Task) {
			if len(k.Rivals) > 0 && k.State == filch.OK {
				t.rivals[spec.Name(index)] = record.Starts(k.Attempt, k.Maybe)
			}
		})
	}
}

// outdone reports whether a piece is of a start that was stopped, because another copy ended
// first.
func (t *Target) outdone(o *wire.OutputPiece) bool {
	return o.Failed && !t.ranks() && t.rivals[o.Index] == max(o.Attempt, 1)
}

// lookup reads records.
func lookup(c *client.Client, keys []dht.Key, take func(value []byte) error) error {
	for len(keys) > 0 {
		ops := make([]dht.Op, min(len(keys), namesAtOnce))
		for i := range ops {
			ops[i] = dht.Op{Code: dht.OpLookup, Key: keys[i], Consistent: true}
		}
		results, err := c.Store(namesWait, ops...)
		for i := range results {
			if r := &results[i]; r.Outcome != dht.Done && r.Outcome != dht.Absent && err == nil {
				err = filch.Errorf(filch.Unavailable, "cannot read a record: %s", r.Outcome)
			}
			if err == nil {
				err = take(results[i].Value)
			}
		}
		if err != nil {
			return err
		}
		keys = keys[len(ops):]
	}
	return nil
}

// exists refuses a first task that the job does not have. An open job may get the task
// yet, and tasks that run again have the numbers of an earlier job.
func (t *Target) exists(c *client.Client) error {
	if !cli.IsTasks(&t.Info) || t.First < t.Info.Tasks.Total || t.Info.Open {
		return nil
	}
	err := cli.Ask(c, cli.QueryWait, nil, wire.VerbTask, t.Job.String(), strconv.Itoa(int(t.First)))
	if ui.KindOf(err) == filch.NotFound {
		return filch.Errorf(filch.NotFound, "there is no task %d.%d: the job has %s", t.Job, t.First, filch.Plural(int(t.Info.Tasks.Total), "task"))
	}
	return nil
}

// Limits of reading the names of tasks.
const (
	namesWait   = 5 * time.Second
	namesAtOnce = 64
)

// FindNames reads the names of the tasks of workflows, for labels. A name that cannot be
// read leaves the tasks of the job with their numbers.
func FindNames(c *client.Client, targets []Target) {
	for i := range targets {
		if t := &targets[i]; t.Info.Kind == "workflow" {
			t.Names = names(c, t)
		}
	}
}

func names(c *client.Client, t *Target) (all []string) {
	var keys []dht.Key
	for part := range (t.Info.Tasks.Total + record.PayloadSize - 1) / record.PayloadSize {
		keys = append(keys, dht.Key(record.KeyPayload(t.Job, part)))
	}
	all = make([]string, 0, t.Info.Tasks.Total)
	err := lookup(c, keys, func(value []byte) error {
		p, err := record.DecodePayload(value)
		if err != nil {
			return err
		}
		for off := range min(record.PayloadSize, int(t.Info.Tasks.Total)-len(all)) {
			line, _ := p.Line(uint8(off))
			node, err := record.DecodeGraphNode(line)
			if err != nil {
				return err
			}
			all = append(all, node.Name)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return all
}
