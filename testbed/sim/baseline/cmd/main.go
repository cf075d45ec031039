// Command cmd prints what the shipped cores and the schedulers of the papers do with the same
// work, in virtual time.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/filch-hpc/filch/testbed/sim/baseline"
)

func main() {
	nodes := flag.Int("nodes", 64, "nodes of the bags; the shipped cores run on up to 1024")
	slots := flag.Int("slots", 4, "slots of a node")
	each := flag.Int("tasks", 100, "tasks by slot")
	length := flag.Duration("length", 64*time.Millisecond, "the length of a task")
	gangs := flag.Int("gangs", 200, "nodes of the gangs; SLURM++ has partitions of 100")
	runs := flag.Duration("runs", time.Second, "the length of a gang")
	only := flag.String("only", "bags,gangs", "the tables to print")
	flag.Parse()
	var err error
	if strings.Contains(*only, "bags") {
		err = bags(baseline.Default(*nodes, *slots, *each, *length))
	}
	if err == nil && strings.Contains(*only, "gangs") {
		err = jobs(baseline.DefaultGangs(*gangs, *runs))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "baseline:", err)
		os.Exit(1)
	}
}

func bags(list []baseline.Bag) error {
	for i := range list {
		if err := baseline.PrintBag(os.Stdout, &list[i], baseline.Bags()); err != nil {
			return err
		}
	}
	return nil
}

func jobs(list []baseline.Gangs) error {
	for i := range list {
		if err := baseline.PrintGangs(os.Stdout, &list[i], baseline.GangSchedulers()); err != nil {
			return err
		}
	}
	return nil
}
