package spec_test

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch/launcher/spec"
)

func TestWithCPUs(t *testing.T) {
	for _, c := range []struct {
		name             string
		outer, sets, got []string
		cpus             int32
	}{
		{"no -c", []string{"A=1"}, nil, []string{"A=1"}, 0},
		{"-c 2", []string{"A=1"}, nil, []string{"A=1", "FILCH_CPUS_PER_TASK=2", "OMP_NUM_THREADS=2"}, 2},
		{"the user's threads stay", []string{"OMP_NUM_THREADS=7"}, nil, []string{"OMP_NUM_THREADS=7", "FILCH_CPUS_PER_TASK=2"}, 2},
		{"an empty variable is set", []string{"OMP_NUM_THREADS="}, nil, []string{"OMP_NUM_THREADS=", "FILCH_CPUS_PER_TASK=2"}, 2},
		{"the job around is not the user", []string{"OMP_NUM_THREADS=4", "FILCH_CPUS_PER_TASK=4"}, nil, []string{"FILCH_CPUS_PER_TASK=2", "OMP_NUM_THREADS=2"}, 2},
		{"without -c in a job of -c", []string{"OMP_NUM_THREADS=4", "FILCH_CPUS_PER_TASK=4", "A=1"}, nil, []string{"A=1"}, 0},
		{"in a job of -c, with the user's threads", []string{"OMP_NUM_THREADS=3", "FILCH_CPUS_PER_TASK=4"}, nil, []string{"OMP_NUM_THREADS=3"}, 0},
		{"the command line sets threads", []string{"OMP_NUM_THREADS=4", "FILCH_CPUS_PER_TASK=4"}, []string{"OMP_NUM_THREADS=4"}, []string{"OMP_NUM_THREADS=4"}, 0},
	} {
		if got := spec.WithCPUs(slices.Clone(c.outer), c.outer, c.sets, c.cpus); !slices.Equal(got, c.got) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.got)
		}
	}
}
