//go:build mutants

package slots_test

import (
	"testing"

	"github.com/filch-hpc/filch"

	. "github.com/filch-hpc/filch/slots"
)

// TestMutantsAreCaught plants the fault that no checker of a simulator sees within
// its seeds, and looks that its scene would.
func TestMutantsAreCaught(t *testing.T) {
	if !Plant("tasks-block") {
		t.Fatal("there is no planted fault tasks-block")
	}
	defer Plant("")
	l := New(cpus(5), 1)
	gang := ask(1, 2)
	l.Ask(1, gang, 1)
	l.TasksWait(2, true, filch.Room{Slots: 5})
	gang.Wait = true
	gang.Round++
	if s := l.Ask(3, gang, filch.Unbounded); s.Held == 2 {
		t.Error("the gang gets what it asks for although the fault is planted")
	}
}
