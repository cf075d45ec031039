// Command cmd prints what each node holds and sends because of the number of nodes.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/filch-hpc/filch/testbed/sim/sizes"
)

func main() {
	nodes := flag.String("nodes", "100,1000,9999", "numbers of nodes")
	flag.Parse()
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "nodes\tentry\tmember list\tneighbors\tlist of choices\troster\tjoin\tloss of a replica")
	for text := range strings.SplitSeq(*nodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "sizes: %q is no number of nodes\n", text)
			os.Exit(1)
		}
		s := sizes.Of(n)
		fmt.Fprintf(t, "%d\t%d B\t%.0f B a node\t%d\t%.0f B a node\t%d B\t%d B\t%d B\n", s.Nodes, s.Entry, s.List, s.Neighbors, s.Choices, s.Roster, s.Join, s.Exclude)
	}
	t.Flush()
}
