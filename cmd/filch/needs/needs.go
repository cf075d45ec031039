// Package needs collects what the tasks of a job take of their nodes, where the tasks
// differ: the entries of a JSON list and the tasks of a workflow file.
package needs

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Table has the different needs of a job's tasks, in the order in which the tasks come.
type Table struct {
	base  record.Need
	list  []record.Need
	known map[string]int // the number of a need, by its bytes
	first []string       // the first task with a need, by the need's number
}

// New makes a Table for a job; the values in the job's spec hold for tasks without values
// of their own.
func New(sp *record.Spec) *Table {
	return &Table{base: sp.Need(0), known: make(map[string]int)}
}

// Own reports whether a task has a value of its own.
func Own(n *workflow.Need) bool {
	return n.CPUs > 0 || n.MemBytes > 0 || n.Gang != (workflow.Gang{}) || n.GPUs+n.Nodelist+n.Exclude+n.Constraint+n.Resource != ""
}

// Number is the number of a task's need, as in [record.Spec.Need] after [Table.Fill]; shape
// is nil for a task of one process. Task names the task in messages.
func (t *Table) Number(own *workflow.Need, shape *launcher.Shape, task string) (int, error) {
	n, err := t.of(own)
	if err != nil {
		return 0, err
	}
	if n.Gang = (record.Gang{}); shape != nil {
		if n.Gang, err = GangOf(shape, n.Nodes); err != nil {
			return 0, err
		}
	}
	key := string((&record.Spec{Needs: []record.Need{n}}).Encode())
	number, known := t.known[key]
	if !known {
		number = len(t.list)
		if number > record.MaxNeeds {
			return 0, filch.Errorf(filch.Invalid, "the tasks take more than %d different amounts of slots, memory, GPUs, nodes and resources", len(t.list)).
				WithHint("round mem up, or submit several jobs")
		}
		t.list, t.known[key], t.first = append(t.list, n), number, append(t.first, task)
	}
	return number, nil
}

// Fill puts the needs into the job's spec.
func (t *Table) Fill(sp *record.Spec) {
	if len(t.list) == 0 {
		return
	}
	sp.Each, sp.Nodes, sp.Gang, sp.Needs = t.list[0].Each, t.list[0].Nodes, t.list[0].Gang, t.list[1:]
}

// unmet is the refusal of a job for a need that no node meets.
type unmet struct {
	err    *filch.Error
	number int
}

func (u *unmet) Error() string { return u.err.Text }

func (u *unmet) Unwrap() error { return u.err }

// Refused is the refusal of a job by a launcher, with the number of the need that no node meets;
// -1: for another reason.
func Refused(err *filch.Error, number int) error {
	if number < 0 {
		return err
	}
	return &unmet{err, number}
}

// Blame names in the refusal of a job the first task with the need that no node meets. A nil
// Table is of a job whose tasks all take the same.
func (t *Table) Blame(err error) error {
	u, ok := errors.AsType[*unmet](err)
	if !ok || t == nil || u.number >= len(t.first) {
		return err
	}
	return &filch.Error{Kind: u.err.Kind, Text: t.first[u.number] + ": " + u.err.Text, Hint: u.err.Hint}
}

// of is what a task takes: each value of the task's own stands in place of the job's.
func (t *Table) of(own *workflow.Need) (record.Need, error) {
	n := t.base
	n.Each.Slots = cmp.Or(own.CPUs, n.Each.Slots)
	n.Each.MemBytes = cmp.Or(own.MemBytes, n.Each.MemBytes)
	nodes := filch.Nodes{}
	if n.Nodes != nil {
		nodes = *n.Nodes
	}
	var bad *filch.Error
	if own.Constraint != "" {
		if nodes.Labels, bad = filch.ReadConstraint(own.Constraint); bad != nil {
			return n, At("constraint", bad)
		}
	}
	if own.GPUs != "" {
		kind, count, err := spec.Devices(own.GPUs)
		if err != nil {
			return n, At("gpus", err)
		}
		n.Each.GPUs = count
		nodes.Labels = nodes.Labels.And(filch.Constraint(kind))
	}
	for _, list := range []struct {
		key, value string
		to         *[]filch.NodeName
	}{{"nodelist", own.Nodelist, &nodes.Only}, {"exclude", own.Exclude, &nodes.Exclude}} {
		if list.value == "" {
			continue
		}
		names, err := spec.Hosts(list.value)
		if err != nil {
			return n, At(list.key, err)
		}
		*list.to = names
	}
	if own.Resource != "" {
		a, bad := filch.ReadAmounts(own.Resource)
		if bad != nil {
			return n, At("resource", bad)
		}
		n.Each.Named = n.Each.Named.Under(a)
	}
	if n.Nodes = nil; len(nodes.Only)+len(nodes.Exclude) > 0 || nodes.Labels != "" {
		n.Nodes = &nodes
	}
	return n, nil
}

// At is the error of a value, with the place of the value.
func At(place string, err error) error {
	e := filch.Errorf(filch.Invalid, "%s: %s", place, err.Error())
	if told, is := errors.AsType[*filch.Error](err); is {
		e.Hint = told.Hint
	}
	return e
}

// keys are the keys of an entry that a pass over all entries reads.
var keys = [...]string{
	`"cpus"`, `"mem"`, `"gpus"`, `"retries"`, `"once"`, `"nodelist"`, `"exclude"`, `"constraint"`, `"resource"`,
	`"ranks"`, `"nodes"`, `"ranks_per_node"`, `"mpi"`, `"time"`,
}

// keyMax is the length of the longest of keys.
const keyMax = len(`"ranks_per_node"`)

// Named reports whether the text of a JSON list may have one of the keys. Most lists have
// none, and are read as JSON only once.
func Named(text io.Reader) (bool, error) {
	r := bufio.NewReaderSize(text, 64<<10)
	for {
		b, err := r.Peek(r.Size())
		for _, key := range keys {
			if bytes.Contains(b, []byte(key)) {
				return true, nil
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return false, err
		}
		_, _ = r.Discard(len(b) - keyMax) // a key may go over the end
	}
}
