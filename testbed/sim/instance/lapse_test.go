package instance

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/mtc/record"
)

// A bag is judged by its records unless some of them came back older than they were:
// then tasks may begin again whose starts no disk has (seed 1776).
func TestBagOfWhichARecordWentBack(t *testing.T) {
	for _, x := range []struct {
		name   string
		behind uint64 // of what was answered, on the disks
	}{{"all records are there", 0}, {"one is older", 1}} {
		t.Run(x.name, func(t *testing.T) {
			s := newScene(t, 3, 2)
			b := s.submitTasks(2, 20*time.Second)
			s.At(5*time.Second, func() {
				for _, h := range s.hosts {
					s.killLauncher(h)
				}
				key := dht.Key(record.KeyJob(b.id))
				v, ok := s.lapses[key]
				if !ok {
					t.Fatalf("no version of %s is known: %v", key, s.lapses)
				}
				s.lapses[key] = dht.Version{Epoch: v.Epoch, Seq: v.Seq + x.behind}
			})
			for _, h := range s.hosts {
				s.At(6*time.Second, func() { s.restart(h) })
			}
			s.Run(time.Minute)
			if b.id == filch.JobID(0) || b.lapsed != (x.behind > 0) {
				t.Errorf("of job %d a record went back: %t, want %t", b.id, b.lapsed, x.behind > 0)
			}
			for _, v := range s.Broken() {
				t.Error(v)
			}
		})
	}
}

// submitTasks has a client of the first host submit a bag.
func (s *scene) submitTasks(total int32, takes time.Duration) *bag {
	b := &bag{index: len(s.bags), shortest: takes, longest: takes, submit: time.Millisecond}
	b.request.Total, b.request.Follow = total, true
	b.request.Spec = record.Spec{Body: taskBody(b.index), Each: filch.Room{Slots: 1}, Once: true}
	b.grow(total)
	s.bags = append(s.bags, b)
	s.At(b.submit, func() { s.submitBag(b) })
	return b
}
