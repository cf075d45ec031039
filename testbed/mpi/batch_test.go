//go:build root

package mpi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// TestBatchJobsSpread has batch jobs with a step of MPI each, submitted on four
// hosts, while other runs take slots and give them back: so a job has as many of
// its ranks on a node as that happened to have free.
func TestBatchJobsSpread(t *testing.T) {
	c := up(t, 4, 4)
	each := rig.Sized(15, 500)
	shims := filepath.Join(c.Dir, "shims")
	c.Must(0, "shim", "install", "--slurm", shims)
	c.Extra = append(c.Extra, "PATH="+shims+":"+os.Getenv("PATH"), "RING="+program(t, "ring"))
	ctx, cancel := context.WithTimeout(t.Context(), rig.Sized(3*time.Minute, 30*time.Minute))
	defer cancel()
	over := make(chan struct{})
	var load, batches sync.WaitGroup
	others := make([]int, len(c.Hosts))
	start := time.Now()
	for i := range c.Hosts {
		load.Go(func() { others[i] = c.others(ctx, i, over) })
		batches.Go(func() { c.batches(ctx, i, each) })
	}
	batches.Wait()
	close(over)
	load.Wait()
	good, uneven := 0, 0
	for i, h := range c.Hosts {
		want := fmt.Sprintf("ring of %d: token %d, want %[2]d\n", batchRanks(i), 3*batchRanks(i))
		for k := range each {
			text, _ := os.ReadFile(filepath.Join(c.Dir, batchOutput(h.Name, k/batchArray, strconv.Itoa(1+k%batchArray))))
			where, said, _ := strings.Cut(string(text), "\n")
			if said == want {
				good++
			} else {
				t.Errorf("job %d of %s on %s: %q", k+1, h.Name, where, said)
			}
			if strings.Contains(where, ",") {
				uneven++
			}
		}
	}
	sum := 0
	for _, n := range others {
		sum += n
	}
	if uneven == 0 || sum == 0 {
		t.Errorf("%d jobs had more ranks on one node than on another, %d other runs: that shows nothing", uneven, sum)
	}
	t.Logf("figure: %d of %d batch jobs with a step right, %d with unequal parts on their nodes, beside %d other runs, %.0f s",
		good, each*len(c.Hosts), uneven, sum, time.Since(start).Seconds())
	c.whole(20*time.Second, 4)
}

// batchRanks is the size of the batch jobs of host i: what a host has, and more.
func batchRanks(i int) int { return 4 + i%2 }

// batchArray is how many batch jobs are submitted together. Who comes later waits
// for them: with all of them at once the other runs would have their turn at the end.
const batchArray = 5

func batchOutput(host string, array int, member string) string {
	return fmt.Sprintf("%s.%d.%s", host, array, member)
}

// batches submits n batch jobs on host i, array after array.
func (c *cluster) batches(ctx context.Context, i, n int) {
	for a := range n / batchArray {
		cmd := c.Hosts[i].CommandIn(ctx, c.Dir, "sbatch", "--wait", fmt.Sprintf("--array=1-%d", batchArray), "-n", strconv.Itoa(batchRanks(i)),
			"-o", batchOutput(c.Hosts[i].Name, a, "%a"), "--wrap", `echo "$SLURM_TASKS_PER_NODE"; srun "$RING" 3`)
		cmd.Env = c.Env(i)
		if out, err := cmd.CombinedOutput(); err != nil {
			c.T.Errorf("sbatch on %s: %v: %s", c.Hosts[i].Name, err, out)
		}
	}
}

// others runs short runs of one to three ranks on host i until over is closed,
// and counts them.
func (c *cluster) others(ctx context.Context, i int, over <-chan struct{}) (n int) {
	for {
		select {
		case <-over:
			return n
		default:
		}
		out, err := c.Command(ctx, i, "run", "-n", strconv.Itoa(1+(i+n)%3), "sleep", "0.05").CombinedOutput()
		if err != nil {
			c.T.Errorf("run %d on %s: %v: %s", n, c.Hosts[i].Name, err, out)
			return n
		}
		n++
	}
}
