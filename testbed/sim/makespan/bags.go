package makespan

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// BagHosts are the numbers of hosts of [PrintBags].
var BagHosts = []int{4, 16}

// Bags are bags with lengths that differ by much, for some slots: log-normal ones, a hundredth
// that takes twenty times as long, and the longest last.
func Bags(seed uint64, slots int) []Workflow {
	d := engine.NewDice(seed, 1)
	normal := func() float64 { return normal(d) }
	seconds := func(s float64) time.Duration { return time.Duration(max(s, 0.01) * float64(time.Second)) }
	list := []Workflow{
		bag("log-normal, sigma 1", 30*slots, func() time.Duration { return seconds(10 * math.Exp(normal())) }),
		bag("log-normal, sigma 1.5", 60*slots, func() time.Duration { return seconds(5 * math.Exp(1.5*normal())) }),
		bag("a hundredth 20 times as long", 40*slots, func() time.Duration {
			if d.Chance(0.01) {
				return seconds(200 * math.Exp(0.1*normal()))
			}
			return seconds(10 * math.Exp(0.3*normal()))
		}),
		bag("0-20 s", 20*slots, func() time.Duration { return seconds(20 * d.Unit()) }),
		bag("short tasks, log-normal", 200*slots, func() time.Duration { return seconds(0.2 * math.Exp(normal())) }),
	}
	last := bag("log-normal, longest last", 30*slots, func() time.Duration { return seconds(10 * math.Exp(normal())) })
	slices.Sort(last.Lengths)
	return append(list, last)
}

// normal is a number of the standard normal distribution (Box and Muller).
func normal(d *engine.Dice) float64 {
	return math.Sqrt(-2*math.Log(1-d.Unit())) * math.Cos(2*math.Pi*d.Unit())
}

// BagLoss is what a bag loses to the list of the longest first on ideal slots.
type BagLoss struct {
	Bag               string
	Hosts             int
	Longest           time.Duration // on ideal slots, the longest first
	Stated, Submitted time.Duration // in the shipped cores, with stated lengths and without
}

// Lost is the part of the ideal time that the cores lose with stated lengths.
func (l *BagLoss) Lost() float64 { return float64(l.Stated-l.Longest) / float64(l.Longest) }

// Unstated is the same without stated lengths.
func (l *BagLoss) Unstated() float64 { return float64(l.Submitted-l.Longest) / float64(l.Longest) }

// bagLoss runs a bag in the shipped cores, with stated lengths and without.
func bagLoss(w *Workflow, hosts int, p policy.Policy, seed uint64) (l BagLoss, err error) {
	i := newIdeal(make([]record.GraphNode, len(w.Lengths)), w.Lengths)
	l = BagLoss{Bag: w.Name, Hosts: hosts, Longest: i.list(hosts*slotsEach, i.urgent)}
	for _, stated := range []bool{true, false} {
		w.Stated = stated
		t, err := Run(w, hosts, p, seed, fast)
		if err != nil {
			return l, err
		}
		if stated {
			l.Stated = t.Time
		} else {
			l.Submitted = t.Time
		}
	}
	return l, nil
}

// BagSum is what bags lose.
type BagSum struct {
	Mean     float64
	Worst    BagLoss
	Unstated float64 // the mean without stated lengths
}

// Holds reports whether the bars of the order hold.
func (s *BagSum) Holds() bool { return s.Mean <= LostMean && s.Worst.Lost() <= LostWorst }

// PrintBags runs [Bags] with some seeds, and prints a row for each bag.
func PrintBags(out io.Writer, hosts []int, seeds int, p policy.Policy) (sum BagSum, err error) {
	fmt.Fprintf(out, "Bags with stated lengths on hosts of %d slots, policy %s, mean of seeds 1 to %d: lost to the longest first on ideal slots\n\n| bag | hosts | ideal | stated lengths | worst seed | order of submission |\n|---|---|---|---|---|---|\n", slotsEach, p, seeds)
	rows := 0
	for _, n := range hosts {
		for k := range Bags(1, n*slotsEach) {
			var worst BagLoss
			ideal, lost, unstated := time.Duration(0), 0.0, 0.0
			for seed := range seeds {
				l, err := bagLoss(&Bags(uint64(seed)+1, n*slotsEach)[k], n, p, uint64(seed)+1)
				if err != nil {
					return sum, err
				}
				ideal, lost, unstated = ideal+l.Longest/time.Duration(seeds), lost+l.Lost()/float64(seeds), unstated+l.Unstated()/float64(seeds)
				if worst.Hosts == 0 || l.Lost() > worst.Lost() {
					worst = l
				}
			}
			fmt.Fprintf(out, "| %s | %d | %.1f s | %.2f %% | %.2f %% | %.2f %% |\n", worst.Bag, n, ideal.Seconds(), 100*lost, 100*worst.Lost(), 100*unstated)
			rows++
			sum.Mean += (max(lost, 0) - sum.Mean) / float64(rows)
			sum.Unstated += (unstated - sum.Unstated) / float64(rows)
			if rows == 1 || worst.Lost() > sum.Worst.Lost() {
				sum.Worst = worst
			}
		}
	}
	fmt.Fprintf(out, "\nbags with stated lengths: lost %.2f %% in the mean, %.2f %% at worst (%s on %d hosts), %.2f %% in the order of submission: %s\n", 100*sum.Mean, 100*sum.Worst.Lost(), sum.Worst.Bag, sum.Worst.Hosts, 100*sum.Unstated, held(sum.Holds()))
	return sum, nil
}
