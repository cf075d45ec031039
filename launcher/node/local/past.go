package local

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// MaxPast and maxPastBytes bound the jobs remembered after their end; the oldest is
// forgotten first.
const (
	MaxPast      = 2000
	maxPastBytes = 1 << 20
)

// Past holds the ended jobs of a node, for later queries.
type Past struct {
	ring  []Ended
	first int // the oldest
	bytes int
	index map[filch.JobID]int
}

// Ended is a job that has ended.
type Ended struct {
	Info  launcher.JobInfo
	End   launcher.EndRecord
	bytes int
}

// Add remembers a job and returns the detached jobs forgotten for the new entry; the
// caller removes their records.
func (p *Past) Add(i launcher.JobInfo, e launcher.EndRecord) (forgot []filch.JobID) {
	if p.index == nil {
		p.index = make(map[filch.JobID]int)
	}
	x := Ended{Info: i, End: e, bytes: sizeOf(&i, &e)}
	p.bytes += x.bytes
	p.index[i.ID] = len(p.ring)
	p.ring = append(p.ring, x)
	for len(p.ring)-p.first > MaxPast || p.bytes > maxPastBytes && len(p.ring)-p.first > 1 {
		old := &p.ring[p.first]
		p.bytes -= old.bytes
		if old.Info.Detached && old.Info.ID != 0 {
			forgot = append(forgot, old.Info.ID)
		}
		delete(p.index, old.Info.ID)
		*old = Ended{}
		p.first++
	}
	if p.first > 64 && p.first > len(p.ring)/2 {
		p.ring = slices.Delete(p.ring, 0, p.first)
		for id := range p.index { // in any order: each is moved alike
			p.index[id] -= p.first
		}
		p.first = 0
	}
	return forgot
}

// sizeOf estimates the memory of an ended job.
func sizeOf(i *launcher.JobInfo, e *launcher.EndRecord) int {
	k := 512 + len(i.Name) + len(i.Cause) + 24*len(i.Nodes) + len(i.Rows)
	for r := range e.Ranks {
		k += 160 + len(e.Ranks[r].Text)
	}
	return k
}

// Forget drops a job whose end turned out to be wrong.
func (p *Past) Forget(id filch.JobID) {
	i, ok := p.index[id]
	if !ok {
		return
	}
	delete(p.index, id)
	p.bytes -= p.ring[i].bytes
	p.ring[i] = Ended{}
}

// Find returns a job that has ended; nil if the job is not known here.
func (p *Past) Find(id filch.JobID) *Ended {
	if i, ok := p.index[id]; ok {
		return &p.ring[i]
	}
	return nil
}

// Infos describes the jobs, by their end, without the rows of ranks.
func (p *Past) Infos() []launcher.JobInfo {
	list := make([]launcher.JobInfo, 0, len(p.ring)-p.first)
	for i := p.first; i < len(p.ring); i++ {
		if p.ring[i].Info.ID != 0 {
			list = append(list, p.ring[i].Info)
			list[len(list)-1].Rows = nil
		}
	}
	return list
}
