// Command cmd makes the page of the papers' figures, or repeats one of its runs.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/filch-hpc/filch/testbed/sim/papers"
	"github.com/filch-hpc/filch/testbed/sim/ranges"
)

func main() {
	size := flag.String("size", "small", "tiny, small (minutes) or full (hours)")
	out := flag.String("out", "", "the folder for the page")
	run := flag.String("run", "", "print the results of the run with this name")
	data := flag.String("data", "../shared/data", "the folder with workflow files, in dax and wfformat")
	anew := flag.Bool("anew", false, "run all runs, also those with kept results")
	flag.Parse()
	var err error
	switch {
	case *run != "":
		err = repeat(os.Stdout, *run, *data)
	case *out != "":
		err = page(*size, *out, *data, *anew)
	default:
		err = fmt.Errorf("give -out DIR for the page, or -run NAME for a run")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
}

// repeat runs a run and prints its numbers.
func repeat(out io.Writer, name, data string) error {
	r, err := papers.Run(name, data)
	if err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(r.Numbers)) {
		fmt.Fprintf(out, "%-18s %.6g\n", k, r.Numbers[k])
	}
	return nil
}

// sources are the packages whose change makes kept results void.
var sources = []string{
	".", "dht", "dht/store", "launcher", "launcher/node", "launcher/node/local", "launcher/node/origin", "launcher/node/ranks", "launcher/node/records", "launcher/node/request", "launcher/node/tasks",
	"mtc", "mtc/before", "mtc/ends", "mtc/graph", "mtc/lines", "mtc/message", "mtc/plan", "mtc/policy", "mtc/queue", "mtc/record", "mtc/replica", "mtc/search", "mtc/submit", "mtc/tokens", "mtc/workflow",
	"slots", "stealer", "varint",
	"testbed/sim/baseline", "testbed/sim/engine", "testbed/sim/flat", "testbed/sim/instance", "testbed/sim/makespan", "testbed/sim/papers", "testbed/sim/records", "testbed/sim/tasks",
}

func page(name, out, data string, anew bool) error {
	i := slices.IndexFunc(papers.Sizes, func(z papers.Size) bool { return z.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no size %q: the sizes are tiny, small and full", name)
	}
	b := &papers.Book{Data: data, Log: os.Stderr}
	if !anew {
		dir, err := ranges.Dir()
		if err != nil {
			return err
		}
		if b.Ledger, err = ranges.Open(dir, "papers", sources...); err != nil {
			return err
		}
	}
	p, err := papers.Make(b, papers.Sizes[i], "commit "+commit())
	if err != nil {
		return err
	}
	if err := p.Write(out); err != nil {
		return err
	}
	fmt.Printf("%d runs, %d without a result, in %s\n", len(p.Runs), len(p.Failed), out)
	return nil
}

// commit names the sources that ran.
func commit() string {
	text, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "of no repository"
	}
	return strings.TrimSpace(string(text))
}
