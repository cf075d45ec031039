package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	cluster "github.com/filch-hpc/filch/testbed/slurm"
)

// slurm is a real Slurm of four nodes on this machine, with one allocation of
// everything, in which each launch is a step.
type slurm struct {
	*cluster.Cluster
	job           string
	program, open string // of MPICH; of Open MPI, "" where that or Slurm's PMIx is missing
}

const (
	slurmNodes       = 4
	slurmAllocWithin = 20 * time.Second
)

func newSlurm(scratch, program, open string) (*slurm, error) {
	dir, err := os.MkdirTemp(scratch, "slurm")
	if err != nil {
		return nil, err
	}
	// munged wants a socket that everybody could reach.
	for _, d := range []string{scratch, dir} {
		if err := os.Chmod(d, 0o711); err != nil {
			return nil, err
		}
	}
	c, err := cluster.Open(cluster.Options{Nodes: slurmNodes, CPUs: slotsTotal, Dir: dir})
	if err != nil {
		return nil, err
	}
	s := &slurm{Cluster: c, program: program, open: open}
	if err := s.allocate(); err != nil {
		c.Close()
		return nil, err
	}
	types, err := c.Command(context.Background(), "srun", "--mpi=list").CombinedOutput()
	if err != nil || !strings.Contains(string(types), "pmix") {
		s.open = ""
	}
	return s, nil
}

// allocate takes all nodes.
func (s *slurm) allocate() error {
	if _, err := s.Text("salloc", "-Q", "-N", strconv.Itoa(slurmNodes), "--exclusive", "--no-shell"); err != nil {
		return err
	}
	for deadline := time.Now().Add(slurmAllocWithin); s.job == ""; time.Sleep(settle) {
		s.job, _ = s.Text("squeue", "-h", "-t", "R", "-o", "%i")
		if time.Now().After(deadline) {
			return fmt.Errorf("no allocation within %v", slurmAllocWithin)
		}
	}
	return nil
}

func (s *slurm) name() string { return "srun" }
func (s *slurm) close()       { s.Close() }

func (s *slurm) command(a ask) command {
	argv := []string{"srun", "-Q", "--jobid=" + s.job, "--exact", "-n", strconv.Itoa(a.ranks), "-N", strconv.Itoa(min(a.hosts, a.ranks))}
	switch a.what {
	case mpich:
		argv = append(argv, "--mpi=pmi2", s.program)
	case openMPI:
		if s.open == "" {
			return command{}
		}
		argv = append(argv, "--mpi=pmix", s.open)
	default:
		argv = append(argv, "/bin/true")
	}
	return command{argv: argv, env: s.Env()}
}
