package proc

import (
	"golang.org/x/sys/unix"
)

// Binding is the affinity of the forking thread around a fork.
type Binding struct {
	Set  *unix.CPUSet // the CPUs that the rank got; nil: nothing was bound
	Was  unix.CPUSet
	Kind string
}

func (b Binding) Restore() {
	if b.Set != nil {
		unix.SchedSetaffinity(0, &b.Was)
	}
}
