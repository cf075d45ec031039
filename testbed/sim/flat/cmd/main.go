// Command cmd runs a bag on many nodes in the flat model, and prints what the bag took and what the run cost.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/testbed/sim/flat"
)

func main() {
	var o flat.Options
	flag.IntVar(&o.Nodes, "nodes", 1024, "nodes")
	flag.IntVar(&o.Slots, "slots", 16, "slots of a node")
	each := flag.Int64("tasks", 20, "tasks by slot")
	flag.DurationVar(&o.Length, "length", 64*time.Millisecond, "length of a task")
	flag.Float64Var(&o.Vary, "vary", 0, "lengths are drawn evenly, from this part less than -length to this part more")
	victims := flag.String("victims", "lifeline", "the nodes that thieves ask: lifeline or random")
	spread := flag.String("spread", "auto", "to how many nodes the bag goes at once: auto, 1, log, sqrt or all")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed")
	flag.Parse()
	o.Tasks = *each * int64(o.Nodes) * int64(o.Slots)
	p, err := policy.Read("mlb:victims=" + *victims)
	if err == nil {
		o.Victims = p.Victims
		o.Spread, err = policy.ParseSpreading(*spread)
	}
	if err == nil {
		err = run(os.Stdout, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "flat:", err)
		os.Exit(1)
	}
}

// run prints the results of a run in lines of a name and a value.
func run(out io.Writer, o flat.Options) error {
	debug.SetGCPercent(10) // the arrays have no pointers: a collection is cheap, and lists that grew leave soon
	before := used()
	r, err := flat.Run(o)
	if err != nil {
		return err
	}
	cpu := used() - before
	nodes, tasks := float64(o.Nodes), float64(o.Tasks)
	fmt.Fprintf(out, "%d nodes of %d slots, %d tasks of %v (drawn within %.0f %%), victims %v, spread %v, seed %d\n", o.Nodes, o.Slots, o.Tasks, o.Length, 100*o.Vary, o.Victims, o.Spread, o.Seed)
	fmt.Fprintf(out, "makespan      %v, ideal %v\n", r.Makespan, o.Ideal())
	fmt.Fprintf(out, "overhead      %.2f ms\n", 1000*(r.Makespan-o.Ideal()).Seconds())
	fmt.Fprintf(out, "efficiency    %.4f\n", float64(o.Ideal())/float64(r.Makespan))
	fmt.Fprintf(out, "throughput    %.0f tasks/s\n", tasks/r.Makespan.Seconds())
	fmt.Fprintf(out, "variation     %.4f (tasks of a node)\n", r.Variation)
	fmt.Fprintf(out, "messages      %.2f a node, %.3f a task:%s\n", float64(r.Sent())/nodes, float64(r.Sent())/tasks, r.Kinds())
	fmt.Fprintf(out, "steals        %d with tasks, the first after %v; of a node after %v of search\n", r.Won, r.First, r.Delay)
	fmt.Fprintf(out, "cost          %.2f s of CPU, %.4f us a task, %.2f us a node; %d events\n", cpu.Seconds(), 1e6*cpu.Seconds()/tasks, 1e6*cpu.Seconds()/nodes, r.Events)
	fmt.Fprintf(out, "memory        %.0f B a node in arrays, %.4f B a task; %d MiB of the process at most\n", float64(r.Bytes)/nodes, float64(r.Bytes)/tasks, peak()>>20)
	return nil
}

// used is the CPU time of the process.
func used() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the most memory that the process had, in bytes.
func peak() int64 { return usage().Maxrss << 10 }

func usage() (u unix.Rusage) {
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u
}
