package tasklist

import (
	"fmt"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/mtc/record"
)

// eachReason is why a task was skipped that waited for the tasks of other bags with the same
// number; "" if the task waited for none.
func eachReason(rec *record.Job, index int32) string {
	var before []string
	for i := range rec.After {
		if id, when, _ := rec.At(i); when == record.WhenEach {
			before = append(before, fmt.Sprintf("task %d.%d", id, index))
		}
	}
	if len(before) == 0 {
		return ""
	}
	return strings.Join(before, " or ") + " did not end well, or is missing"
}

// awaits finds, of a bag whose tasks wait one by one, the tasks that wait for no other, and the
// tasks that the others wait for.
func (v *view) awaits(list []Row) error {
	for i := range list {
		t := &list[i]
		if !v.Rec.Singly() || t.State != filch.Waiting.String() && t.State != filch.Ready.String() {
			continue
		}
		var before []string
		for k := range v.Rec.After {
			id, when, _ := v.Rec.At(k)
			if when != record.WhenEach {
				continue
			}
			if ended, err := v.endedWell(id, t.Index); err != nil {
				return err
			} else if !ended {
				before = append(before, fmt.Sprintf("%d.%d", id, t.Index))
			}
		}
		if t.State = filch.Ready.String(); len(before) > 0 {
			t.State, t.Reason = filch.Waiting.String(), "waits for the good end of "+strings.Join(before, " and ")
		}
	}
	return nil
}

// endedWell reports whether a task of another job has ended well, as far as the records tell.
func (v *view) endedWell(id filch.JobID, index int32) (bool, error) {
	p := v.each[id]
	if p == nil {
		var err error
		if p, err = taskrecords.Open(v.Conn, id); err != nil {
			return false, err
		}
		if v.each == nil {
			v.each = map[filch.JobID]*taskrecords.Job{}
		}
		v.each[id] = p
	}
	at, ok := p.Spec.Index(index)
	if !ok {
		return false, nil
	}
	e, err := endOf(p, at)
	return e != nil && e.State == filch.OK, err
}

// endOf is the entry of a task in its block; nil for none.
func endOf(p *taskrecords.Job, i int32) (*record.Task, error) {
	n := i / record.BlockSize
	if p.Blocks[n] == nil {
		if len(p.Blocks) >= viewBlocks {
			clear(p.Blocks)
		}
		if err := p.Load([]int32{n}); err != nil {
			return nil, err
		}
	}
	return p.Blocks[n].Find(uint8(i % record.BlockSize)), nil
}
