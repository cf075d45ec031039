package logs

import (
	"fmt"

	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// unrecorded knows the tasks whose first start may be in no record. Nodes number the output of
// such a task by the starts that may have happened; people, records and FILCH_ATTEMPT count the
// recorded starts. Gangs are left out: their FILCH_ATTEMPT counts the starts that may have
// happened.
type unrecorded struct {
	dial  func() (*client.Client, error) // nil: nothing is read
	spec  *record.Spec
	tasks map[int32]bool // by number; a missing task is not known
}

// add adds a record of a task, if the answer changes no more.
func (u *unrecorded) add(spec *record.Spec, index int32, k *record.Task) {
	if !k.Maybe && k.Attempt <= record.FirstAttempt && !k.State.Final() {
		return
	}
	if u.tasks == nil {
		u.tasks = map[int32]bool{}
	}
	u.tasks[spec.Name(index)] = k.Maybe && !hasGangs(spec)
}

// hasGangs reports whether some tasks are gangs.
func hasGangs(spec *record.Spec) bool {
	for n := range max(len(spec.Needs), 1) {
		if spec.Need(n).Gang.Ranks > 0 {
			return true
		}
	}
	return false
}

// read reads the records of the block of a task. Without an answer, the output of the task has the
// numbers of starts.
func (u *unrecorded) read(t *Target, number int32) {
	err := u.readBlock(t, number)
	if err != nil {
		ui.Warn(fmt.Sprintf("cannot read whether a start of task %d.%d was not recorded: the number of its attempt may be too high: %s", t.Job, number, ui.Cause(err)))
	}
	if _, known := u.tasks[number]; !known {
		if u.tasks == nil {
			u.tasks = map[int32]bool{}
		}
		u.tasks[number] = false
	}
}

func (u *unrecorded) readBlock(t *Target, number int32) error {
	c, err := u.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if u.spec == nil {
		if u.spec, err = specOf(c, t.Job); err != nil {
			return err
		}
	}
	index, ok := u.spec.Index(number)
	if !ok {
		return nil
	}
	first := index - index%record.BlockSize
	return lookup(c, []dht.Key{dht.Key(record.KeyBlock(t.Job, index/record.BlockSize))}, func(value []byte) error {
		if len(value) == 0 {
			return nil
		}
		b, err := record.DecodeBlock(value)
		if err != nil {
			return err
		}
		for i := range b.Tasks {
			u.add(u.spec, first+int32(b.Offs[i]), &b.Tasks[i])
		}
		return nil
	})
}

// shifted reports whether the first start of a task may be in no record. The records are read when
// the task has output of a second start: earlier the record may not be there.
func (t *Target) shifted(o *wire.OutputPiece) bool {
	if t.ranks() || o.Rank > 0 {
		return false
	}
	u := &t.unrecorded
	if _, known := u.tasks[o.Index]; !known && o.Attempt > 1 && u.dial != nil {
		u.read(t, o.Index)
	}
	return u.tasks[o.Index]
}

// attempt is the number of the attempt with a piece of output, as FILCH_ATTEMPT.
func (t *Target) attempt(o *wire.OutputPiece) int32 {
	if n := max(o.Attempt, 1); n == 1 || !t.shifted(o) {
		return n
	}
	return o.Attempt - 1
}

// attemptText is the attempt of a piece for a label; "" for a first one.
func (t *Target) attemptText(o *wire.OutputPiece) (text string) {
	n, all, shifted := t.attempt(o), t.starts[o.Index], t.shifted(o)
	if shifted {
		all--
	}
	switch {
	case all > 1:
		text = fmt.Sprintf("attempt %d of %d", n, all)
	case n > 1 || shifted && o.Attempt <= 1:
		text = fmt.Sprintf("attempt %d", n)
	}
	if text != "" && shifted && o.Attempt <= 1 {
		text += ", not recorded"
	}
	return text
}

// attemptHead is the attempt of a piece for the line before its output; was is the attempt with
// output before, as in [attemptMark].
func (t *Target) attemptHead(o *wire.OutputPiece, was int32) string {
	what := fmt.Sprintf("attempt %d%s", t.attempt(o), t.lostBetween(was/2, max(o.Attempt, 1)))
	if o.Attempt > 1 && t.attempt(o) == 1 {
		what += ", after a start that was not recorded"
	}
	if t.outdone(o) {
		what += ", " + launcher.Outdone
	}
	return what
}
