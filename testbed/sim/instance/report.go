package instance

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/filch-hpc/filch/stealer"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Table prints results side by side.
func Table(out io.Writer, results []*Result) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "workload\tnodes x slots\tstarted\tmakespan\tFIFO\tratio\tEASY\tbusy\tmsg/node/job\tbig wait\tFIFO\tEASY\tsmall wait\tFIFO\tEASY\tlatest\twounds\tnacks\tevents")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%dx%d\t%d/%d\t%s\t%s\t%.4f\t%s\t%.3f\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n",
			r.Name, r.Hosts, r.Slots, r.Started, r.Count, tenths(r.Makespan), tenths(r.FIFO.Makespan), r.Ratio(), tenths(r.EASY.Makespan),
			r.Busy, r.PerNode, cents(r.BigWait), cents(r.FIFO.BigWait), cents(r.EASY.BigWait),
			cents(r.SmallWait), cents(r.FIFO.SmallWait), cents(r.EASY.SmallWait), cents(r.Latest), r.Wounds, r.Nacks, r.Events)
	}
	t.Flush()
}

func tenths(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s" }
func cents(d time.Duration) string  { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s" }

// The acceptance of gathering.
const (
	ratioMax   = 1.02
	perNodeMax = 12.0
	latestMax  = 2 * time.Second // behind the ideal first-come start: nobody starves
)

// Short lists what of the acceptance a result falls short of.
func (r *Result) Short() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, r.Name+": "+fmt.Sprintf(format, args...)) }
	for _, v := range r.Broken {
		add("%v", v)
	}
	if r.Policy.Kind != stealer.Accumulate {
		if r.Started == r.Count {
			add("all %d jobs started, so that the contrast shows nothing", r.Count)
		}
		return lines
	}
	if r.Started != r.Count {
		add("%d of %d jobs started", r.Started, r.Count)
	}
	if r.Latest > latestMax {
		add("a job starts %v after its turn in the ideal queue, want at most %v", r.Latest, latestMax)
	}
	if got := r.Ratio(); got > ratioMax {
		add("the makespan is %.4f of the ideal queue's, want at most %v", got, ratioMax)
	}
	if r.PerNode > perNodeMax {
		add("%.1f messages per node and job, want at most %v: %v", r.PerNode, perNodeMax, r.Kinds)
	}
	return lines
}

// Total sums up fault runs.
type Total struct {
	Seeds, Bad, Jobs, Ended int
	Events                  uint64
	Points                  map[string]int // crash points by how many seeds reached them
	Acts                    Acts
	Rules                   map[string]int // rules by how many seeds broke them
}

// Sum sums up runs and prints those that broke a rule, with the command that
// replays each.
func Sum(out io.Writer, runs []Run) Total {
	t := Total{Seeds: len(runs), Points: make(map[string]int), Acts: make(Acts), Rules: make(map[string]int)}
	for _, r := range runs {
		t.Events += r.Events
		t.Jobs += r.Jobs
		t.Ended += r.Ended
		t.Acts.Join(r.Acts)
		if r.Fuse != "" {
			t.Points[r.Fuse]++
		}
		if len(r.Violations) == 0 {
			continue
		}
		rule := r.Violations[0].Rule
		t.Rules[rule]++
		if t.Bad++; t.Rules[rule] <= maxPrinted {
			replay := fmt.Sprintf("FILCH_SEED=%d go test -run TestFaultSeeds ./testbed/sim/instance", r.Seed)
			if r.Slant != "" {
				replay = fmt.Sprintf("go run ./testbed/sim/instance/cmd -v -slant %s -seed %d", r.Slant, r.Seed)
			}
			fmt.Fprintf(out, "seed %d: %v\n  replay: %s\n", r.Seed, r.Violations[0], replay)
		}
	}
	return t
}

// Join adds the runs that another total sums up.
func (t *Total) Join(o Total) {
	t.Seeds, t.Bad, t.Jobs, t.Ended, t.Events = t.Seeds+o.Seeds, t.Bad+o.Bad, t.Jobs+o.Jobs, t.Ended+o.Ended, t.Events+o.Events
	t.Acts.Join(o.Acts)
	for name, n := range o.Points { // any order
		t.Points[name] += n
	}
	for rule, n := range o.Rules { // any order
		t.Rules[rule] += n
	}
}

// maxPrinted bounds the failing seeds that are printed for each rule.
const maxPrinted = 4
