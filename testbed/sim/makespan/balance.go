package makespan

import (
	"fmt"
	"io"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
)

// Balances are the ways in which waiting tasks get to other nodes, with the numbers of nodes
// to which a bag goes at once.
var Balances = []struct {
	Policy, Spread string
}{{"mlb", "1"}, {"mlb:balance=give", "1"}, {"mlb:balance=both", "1"}, {"mlb", "log"}, {"mlb", "sqrt"}, {"mlb", "all"}}

// PrintBalance runs workloads with each of [Balances]: seconds, and messages between cores by
// task.
func PrintBalance(out io.Writer, list []Workflow, hosts int) error {
	fmt.Fprintf(out, "Seconds, and messages between cores by task, %d hosts of %d slots, seed 1\n\n| workload |", hosts, slotsEach)
	for _, b := range Balances {
		fmt.Fprintf(out, " %s, spread %s |", b.Policy, b.Spread)
	}
	fmt.Fprintf(out, "\n|---|%s\n", dashes(len(Balances)))
	for i := range list {
		w := &list[i]
		fmt.Fprintf(out, "| %s |", w.Name)
		for _, b := range Balances {
			p, err := policy.Read(b.Policy)
			if err != nil {
				return err
			}
			if w.Spread, err = policy.ParseSpreading(b.Spread); err != nil {
				return err
			}
			t, err := Run(w, hosts, p, 1, Gigabit)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, " %.2f, %.2f |", t.Time.Seconds(), float64(t.Messages)/float64(len(w.Lengths)))
		}
		w.Spread = 0
		fmt.Fprintln(out)
	}
	return nil
}

// pollEach is how often a thread of MATRIX v2 (III.B.2) would look up the record of a task that
// waits; the thread of the paper looks without a pause.
const pollEach = 100 * time.Millisecond

// stateEach is how often a node of MATRIX (v1, 3.7) would write its state into the store.
const stateEach = time.Second

// PrintEnds counts, for workloads, the operations on records by task; the messages that a response
// queue would add: a bundle of results is posted to the queue, and taken from there; the
// operations that the threads of MATRIX v2 would add: lookups of tasks that wait, and an update of
// each child at the end of a parent; and those that its nodes and its client of monitoring would add: each node writes its
// state, and the client reads all states.
func PrintEnds(out io.Writer, list []Workflow, hosts int) error {
	fmt.Fprintf(out, "Ends of tasks, %d hosts of %d slots, seed 1: operations on records by task, for moves, starts and ends\n\n| workload | operations on records | a response queue adds messages | lookups each %v of tasks that wait | updates of children | state of nodes each %v, written and read |\n|---|---|---|---|---|---|\n", hosts, slotsEach, pollEach, stateEach)
	for i := range list {
		w := &list[i]
		t, err := Run(w, hosts, policy.Policy{}, 1, Gigabit)
		if err != nil {
			return err
		}
		n, edges := float64(len(w.Lengths)), 0
		for k := range w.Nodes {
			edges += len(w.Nodes[k].Parents)
		}
		fmt.Fprintf(out, "| %s | %.3f | %.3f | %.1f | %.1f | %.3f |\n", w.Name, float64(t.Merges)/n, 4*float64(t.Bundles)/n, float64(t.Waited/pollEach)/n, float64(edges)/n, 2*float64(hosts)*float64(t.Time)/float64(stateEach)/n)
	}
	return nil
}
