// Command cmd prints what the shipped cores and the schedulers of the papers do with the same
// work, in virtual time.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/filch-hpc/filch/testbed/sim/baseline"
)

func main() {
	nodes := flag.Int("nodes", 64, "nodes of the workloads; the shipped cores run on up to 1024")
	slots := flag.Int("slots", 4, "slots of a node")
	each := flag.Int("tasks", 100, "tasks by slot")
	length := flag.Duration("length", 64*time.Millisecond, "the length of a task")
	flag.Parse()
	if err := tables(*nodes, *slots, *each, *length); err != nil {
		fmt.Fprintln(os.Stderr, "baseline:", err)
		os.Exit(1)
	}
}

func tables(nodes, slots, each int, length time.Duration) error {
	for _, b := range baseline.Default(nodes, slots, each, length) {
		if err := baseline.PrintBag(os.Stdout, &b, baseline.Bags()); err != nil {
			return err
		}
	}
	return nil
}
