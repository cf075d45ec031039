// Command cmd prints what the shipped cores and the schedulers of the papers do with the same
// work, in virtual time.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/testbed/sim/baseline"
	"github.com/filch-hpc/filch/testbed/sim/makespan"
)

func main() {
	nodes := flag.Int("nodes", 64, "nodes of the bags; the shipped cores run on up to 1024")
	slots := flag.Int("slots", 4, "slots of a node")
	each := flag.Int("tasks", 100, "tasks by slot")
	length := flag.Duration("length", 64*time.Millisecond, "the length of a task")
	gangs := flag.Int("gangs", 200, "nodes of the gangs; SLURM++ has partitions of 100")
	runs := flag.Duration("runs", time.Second, "the length of a gang")
	only := flag.String("only", "bags,gangs,flows,piles,trees", "the tables to print")
	data := flag.String("data", "../shared/data", "the folder with workflow files, in dax and wfformat")
	flag.Parse()
	var err error
	if strings.Contains(*only, "bags") {
		err = bags(baseline.Default(*nodes, *slots, *each, *length))
	}
	if err == nil && strings.Contains(*only, "gangs") {
		err = jobs(baseline.DefaultGangs(*gangs, *runs))
	}
	if err == nil && strings.Contains(*only, "flows") {
		err = flows(*data)
	}
	if err == nil && strings.Contains(*only, "piles") {
		err = baseline.PrintPiles(os.Stdout, *nodes, 2)
	}
	if err == nil && strings.Contains(*only, "trees") {
		err = baseline.PrintTrees(os.Stdout)
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

// flowFiles are the workflows of ADAGE, IV.
var flowFiles = []string{"CyberShake_1000", "Epigenomics_997", "Inspiral_1000", "Montage_1000", "Sipht_100"}

func flows(data string) error {
	all, err := makespan.Load(data)
	if err != nil {
		fmt.Fprintln(os.Stderr, "baseline: no workflow of a file is run:", err)
		return nil
	}
	var graphs []*workflow.Graph
	var list []makespan.Workflow
	for _, name := range flowFiles {
		text, err := os.ReadFile(filepath.Join(data, "dax", name+".xml"))
		if err != nil {
			return err
		}
		g, err := workflow.Load(bytes.NewReader(text), workflow.Options{Name: name + ".xml"})
		if err != nil {
			return err
		}
		graphs = append(graphs, g)
		list = append(list, all[slices.IndexFunc(all, func(w makespan.Workflow) bool { return w.Name == name })])
	}
	return baseline.PrintFlows(os.Stdout, graphs, list)
}
