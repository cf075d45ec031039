package engine

// To check the invariants of the cores takes as long as all the rest of a run. In one of
// lookedSeeds seeds the cores are checked after every input, in the other seeds after one
// of lookedInputs inputs. As a rule a broken invariant stays broken, and a later check
// finds the fault.
const (
	lookedSeeds  = 16
	lookedInputs = 8
)

// Looks chooses the inputs of a world after which the cores assert their invariants.
type Looks struct {
	every  uint64 // after each so many inputs; 0: never
	inputs uint64
}

// EachInput chooses every input.
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

// Due counts an input and reports whether the invariants are asserted after the input.
func (l *Looks) Due() bool {
	l.inputs++
	return l.every > 0 && l.inputs%l.every == 0
}
