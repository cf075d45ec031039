// Package planted lists the faults that the shipped packages carry under the build
// tag mutants, each one rule broken: the part it is planted in, the simulator that
// must catch it, and the budget of seeds within which it must. It prints what came of
// them as one table.
package planted

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Fault is a planted fault and who must catch it.
type Fault struct {
	Name  string // as the Plant function of its package knows it
	Room  string // the package that carries it
	Part  string // of [Parts]
	Suite string // the simulator that catches it
	Seeds uint64 // the budget; 0: it is seen without faults, or by the scene of its name
	Plan  string // what the plans of the simulator have more of than others; "" nothing
}

// Of lists the faults that a simulator must catch.
func Of(suite string) (list []Fault) {
	for _, f := range Faults {
		if f.Suite == suite {
			list = append(list, f)
		}
	}
	return list
}

// Row is what came of a fault.
type Row struct {
	Fault
	Seed uint64 // that caught it; 0 none
	Took time.Duration
	Says string // what the checker said
}

// Table sets rows in columns, a line for each.
func Table(rows []Row) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fault\tpart\tplan\tcaught by seed\tbudget\ttook\twhat the checker says")
	for i := range rows {
		r := &rows[i]
		seed, budget := "none", fmt.Sprint(r.Seeds)
		switch {
		case r.Seed > 0:
			seed = fmt.Sprint(r.Seed)
		case r.Seeds == 0 && r.Says != "":
			seed, budget = "calm", "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Part, r.Plan, seed, budget, r.Took.Round(10*time.Millisecond), short(r.Says))
	}
	t.Flush()
	return b.String()
}

// shortMax bounds what of a violation the table shows.
const shortMax = 90

func short(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > shortMax {
		return string(r[:shortMax]) + "..."
	}
	return s
}
