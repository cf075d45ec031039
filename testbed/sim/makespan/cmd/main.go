// Command cmd prints how well the shipped cores order and place tasks, in virtual time: what
// their order of starts loses to schedulers that know all, and how long workloads take with
// each policy.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/testbed/sim/makespan"
)

func main() {
	data := flag.String("data", "../shared/data", "the folder with workflow files, in dax and wfformat")
	which := flag.String("policy", "auto", "the policy whose order is compared")
	least := flag.Float64("least", 0.03, "print the runs that lose more than this part")
	hosts := flag.Int("hosts", 8, "hosts of the workloads")
	seeds := flag.Int("seeds", 3, "runs of each workload with each policy")
	network := flag.Float64("network", 1, "the bandwidth of a host in Gb/s, for the table of policies")
	named := flag.String("named", "", "run only workloads with this in their name")
	only := flag.String("only", "order,bags,guesses,policies,balance,ends,papers", "the tables to print")
	strict := flag.Bool("strict", false, "fail where a bar is missed")
	flag.Parse()
	p, err := policy.Read(*which)
	if err == nil {
		var missed []string
		if missed, err = tables(*data, *only, *named, *hosts, *seeds, int64(*network*makespan.Gigabit), p, *least); len(missed) > 0 && *strict {
			err = fmt.Errorf("a bar is missed: %v", missed)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "makespan:", err)
		os.Exit(1)
	}
}

// tables prints the tables, and returns the comparisons whose bars are missed.
func tables(data, only, named string, hosts, seeds int, network int64, p policy.Policy, least float64) (missed []string, err error) {
	list, err := makespan.Load(data)
	if err != nil {
		fmt.Fprintln(os.Stderr, "makespan: no order of starts is compared, and no workflow of a file is run:", err)
	}
	absent := err != nil
	if strings.Contains(only, "order") && !absent {
		sums, err := makespan.PrintOrder(os.Stdout, list, p, least)
		if err != nil {
			return missed, err
		}
		for k := range sums {
			if !sums[k].Holds(makespan.Known(k)) {
				missed = append(missed, fmt.Sprintf("the order of starts, %s known before", makespan.Known(k)))
			}
		}
		fmt.Println()
	}
	if strings.Contains(only, "bags") {
		sum, err := makespan.PrintBags(os.Stdout, makespan.BagHosts, seeds, p)
		if err != nil {
			return missed, err
		}
		if !sum.Holds() {
			missed = append(missed, "bags with stated lengths")
		}
		fmt.Println()
	}
	if strings.Contains(only, "guesses") && !absent {
		makespan.PrintGuesses(os.Stdout, list)
		fmt.Println()
	}
	if strings.Contains(only, "balance") {
		if err := makespan.PrintBalance(os.Stdout, makespan.Workloads(1, 4*hosts)[:4], hosts); err != nil {
			return missed, err
		}
		fmt.Println()
	}
	if strings.Contains(only, "ends") {
		if err := makespan.PrintEnds(os.Stdout, makespan.Workloads(1, 4*hosts), hosts); err != nil {
			return missed, err
		}
		fmt.Println()
	}
	if strings.Contains(only, "papers") {
		if err := makespan.PrintPapers(os.Stdout, list, hosts); err != nil {
			return missed, err
		}
	}
	if strings.Contains(only, "policies") {
		all := slices.Concat(makespan.Workloads(1, 4*hosts), makespan.Scaled(list, 0.1, 0.1, "CyberShake_100", "blast", "seismology", "srasearch", "Epigenomics_100", "Inspiral_100", "Montage_100", "Sipht_100", "montage-chameleon-2mass-025d", "1000genome-chameleon-12ch"))
		all = slices.DeleteFunc(all, func(w makespan.Workflow) bool { return !strings.Contains(w.Name, named) })
		worst, err := makespan.PrintPolicies(os.Stdout, all, hosts, seeds, network)
		if err != nil {
			return missed, err
		}
		if fmt.Printf("\nauto is %.1f %% behind the best fixed policy at worst (%s)\n", 100*worst.Behind(), worst.Workflow); worst.Behind() > makespan.BehindMax {
			missed = append(missed, "auto beside the best fixed policy")
		}
	}
	return missed, nil
}
