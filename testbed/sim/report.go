package sim

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Table prints results side by side.
func Table(out io.Writer, results []*Result) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "workload\tnodes x slots\tstarted\tmakespan\tFIFO\tratio\tEASY\tbusy\tmsg/node/job\tbig wait\tFIFO\tEASY\tsmall wait\tFIFO\tEASY\twounds\tnacks\tevents")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%dx%d\t%d/%d\t%s\t%s\t%.4f\t%s\t%.3f\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n",
			r.Name, r.Hosts, r.Slots, r.Started, r.Count, tenths(r.Makespan), tenths(r.FIFO.Makespan), r.Ratio(), tenths(r.EASY.Makespan),
			r.Busy, r.PerNode, cents(r.BigWait), cents(r.FIFO.BigWait), cents(r.EASY.BigWait),
			cents(r.SmallWait), cents(r.FIFO.SmallWait), cents(r.EASY.SmallWait), r.Wounds, r.Nacks, r.Events)
	}
	t.Flush()
}

func tenths(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s" }
func cents(d time.Duration) string  { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s" }
