package engine

// The invariants inside the cores cost as much as all the rest of a run: they are
// asserted after every input in one of lookedSeeds seeds, and after one of lookedInputs
// in the others. What an input breaks stays broken as a rule, and is seen later.
const (
	lookedSeeds  = 16
	lookedInputs = 8
)

// Looks says after which inputs of a world its cores assert their invariants.
type Looks struct {
	every  uint64 // after each so many inputs; 0: never
	inputs uint64
}

// EachInput has them asserted after every input.
func EachInput() Looks { return Looks{every: 1} }

// LooksOf is for the run of a seed.
func LooksOf(seed uint64) Looks {
	if seed%lookedSeeds == 0 {
		return EachInput()
	}
	return Looks{every: lookedInputs}
}

// Any reports whether the invariants are asserted at all.
func (l *Looks) Any() bool { return l.every > 0 }

// Due counts an input and reports whether they are asserted after it.
func (l *Looks) Due() bool {
	l.inputs++
	return l.every > 0 && l.inputs%l.every == 0
}
