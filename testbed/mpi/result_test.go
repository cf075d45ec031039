package mpi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/pmi"
)

// result is how a command ended.
type result struct {
	code   int
	stdout string
	stderr string
	took   time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("code %d after %v\nstdout: %s\nstderr: %s", r.code, r.took, r.stdout, r.stderr)
}

// lastLine is the last of what filch said.
func (r result) lastLine() string {
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	return lines[len(lines)-1]
}

// endings is every way in which a rank can end, with the job's exit code and
// what its last line must say. Rank 1 ends so; rank 0 waits for it in MPI where
// it can.
var endings = []struct {
	name string
	args []string
	code int
	last []string // nil: no line at all
}{
	{"after-finalize", []string{"finalized", "7"}, 7, []string{"rank 1", "exited with 7"}},
	{"well", []string{"finalized", "0"}, 0, nil},
	{"without-finalize", []string{"unfinalized", "7"}, 7, []string{"rank 1", "exited with 7"}},
	{"zero-without-finalize", []string{"zero"}, 1, []string{"rank 1", "without MPI_Finalize"}},
	{"segv", []string{"segv"}, 139, []string{"rank 1", "SIGSEGV"}},
	{"kill", []string{"kill"}, 137, []string{"rank 1", "SIGKILL"}},
	{"before-init", []string{"unstarted", "7"}, 7, []string{"rank 1", "exited with 7"}},
	{"zero-before-init", []string{"unstarted-zero"}, 1, []string{"waits for rank 1, which"}},
	{"abort", []string{"abort", "42"}, 42, []string{"rank 1", "MPI_Abort(42)"}},
	{"abort-zero", []string{"abort", "0"}, 0, []string{"rank 1", "MPI_Abort(0)"}},
	{"abort-large", []string{"abort", "300"}, 44, []string{"rank 1", "MPI_Abort(44)"}},
	{"garbage", []string{"garbage"}, 1, []string{"rank 1", "broke the PMI protocol", "garbage"}},
}

// verdict checks a code and a last line.
func verdict(t *testing.T, r result, code int, last []string) {
	t.Helper()
	if r.code != code {
		t.Errorf("want code %d: %v", code, r)
	}
	if last == nil && strings.Contains(r.stderr, "filch:") {
		t.Errorf("said %q, want nothing", r.stderr)
	}
	for _, s := range last {
		if !strings.Contains(r.lastLine(), s) {
			t.Errorf("the last line is %q, want it to contain %q", r.lastLine(), s)
		}
	}
}

// good checks that all ranks ended with 0 after MPI_Finalize.
func good(t *testing.T, ends []outcome) {
	t.Helper()
	for r, e := range ends {
		if e.code != 0 || e.state != pmi.Finalized {
			t.Errorf("rank %d ended with %d, %v: %s", r, e.code, e.state, e.output)
		}
	}
}

// hellos checks what hello says of every rank: where has its node, names the
// host of each node.
func hellos(t *testing.T, output string, where []int32, names []string) {
	t.Helper()
	shared := map[int32]int{}
	for _, n := range where {
		shared[n]++
	}
	got := strings.Split(strings.TrimSpace(output), "\n")
	slices.Sort(got)
	var want []string
	for r, n := range where {
		want = append(want, fmt.Sprintf("rank %d of %d on %s shared %d", r, len(where), names[n], shared[n]))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("hello said\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func outputs(ends []outcome) string {
	var b strings.Builder
	for _, e := range ends {
		b.WriteString(e.output)
	}
	return b.String()
}
