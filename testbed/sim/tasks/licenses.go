package tasks

import (
	"time"

	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// seats is a resource that all hosts share.
const seats = "seat"

// defineAgain is how often a person repeats the definition of the resource, until the record
// is there.
const defineAgain = 200 * time.Millisecond

// licenses plans that tasks take of a resource that all hosts share, in some jobs different
// amounts.
type licenses struct {
	dice  *engine.Dice
	limit int32
	used  int32 // by processes
	peak  int32
}

func newLicenses(seed uint64) licenses {
	d := engine.NewDice(seed, 16)
	return licenses{dice: d, limit: int32(3 + d.N(4))}
}

// take gives the tasks of some jobs seats, at most three each.
func (p *licenses) take(s *submit.Job) {
	if s.Spec.Cap > 0 || !p.dice.Chance(0.3) {
		return
	}
	s.Spec.License = record.License{Name: seats, Each: int32(p.dice.N(3))}
	for i := range s.Spec.Needs {
		s.Spec.Needs[i].License = int32((i + 1 + p.dice.N(3)) % 4) // the first: 1 at least
	}
	if len(s.Spec.Needs) == 0 {
		s.Spec.License.Each++
	}
}

// define sets the limit of the resource.
func (w *World) define() {
	key := record.KeyLicense(seats)
	if w.record(key) != nil {
		return
	}
	op := record.CapOp{Limit: w.licenses.limit, Deed: record.CapLimit}
	w.hosts[w.alive()].propose(&record.Proposal{Op: record.OpMerge, Tag: 1 << 62, Key: key, Kind: record.RecordCap, Delta: op.Encode()})
	w.At(w.Now()+defineAgain, w.define)
}

// takes is what a process uses of the resource.
func (p *process) takes() int32 {
	s := p.start.Spec
	if s.License.Name == "" {
		return 0
	}
	return s.Tokens(int(p.start.Need))
}

func (p *licenses) begun(n int32) {
	p.used += n
	p.peak = max(p.peak, p.used)
}
