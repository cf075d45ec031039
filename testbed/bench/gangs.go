package main

import (
	"os"
	"strconv"
)

// gangRanks is the size of the gangs of an ensemble of processes; gangMPI of MPI programs,
// which poll, so that more of them than cores measure the machine's scheduler.
const (
	gangRanks = 4
	gangMPI   = 2
	gangLoops = 8 // clients of the launchers that start one gang for each command
)

// gangTasks measures ensembles: tasks that are gangs, beside loops over launchers, and
// beside posix_spawn of as many processes. Tasks are ranks here.
func (b *bench) gangTasks() (all []taskFigure) {
	n := max(b.many.processes/gangRanks/slowFactor, 20)
	tableOf("ensembles of gangs of %d ranks of /bin/true; a task is a rank; medians of %d alternated runs", gangRanks, taskRuns)
	for _, launchers := range []int{1, 4} {
		all = append(all, b.onMesh("gangs", launchers, gangRanks, func(m *mesh) []taskFigure {
			h := b.newHeat("gangs", m, gangRanks, 0)
			h.floor(n*gangRanks, "/bin/true")
			h.ensemble(m, n, gangRanks, gangLoops, "/bin/true")
			return h.run()
		})...)
	}
	program, err := compile(b.scratch, "mpicc.mpich", "initfini", initfini)
	// Ranks that wait poll, so the number of gangs at a time decides about the time: the tools
	// have the same.
	for _, loops := range []int{1, gangLoops} {
		tableOf("ensembles of gangs of %d ranks of MPI_Init and MPI_Finalize (MPICH), %d at a time; a task is a rank; medians of %d alternated runs", gangMPI, loops, taskRuns)
		all = append(all, b.onMesh("mpigangs", 1, gangMPI*loops, func(m *mesh) []taskFigure {
			h := b.newHeat("mpigangs-"+strconv.Itoa(loops), m, gangMPI*loops, 0)
			if err != nil {
				h.add(ourTool, 0, err, nil, "true")
				return h.run()
			}
			h.ensemble(m, max(n/4, 10), gangMPI, loops, program)
			return h.run()
		})...)
	}
	return all
}

// ensemble adds the ways to run n gangs of a program: one job, and loops of one command
// for each gang, so many loops at a time.
func (h *heat) ensemble(m *mesh, n, ranks, loops int, program string) {
	size := strconv.Itoa(ranks)
	h.add(ourTool, n*ranks, nil, m.env, h.filch, "submit", "-n", size, "--array", "1-"+strconv.Itoa(n), "--wait", "--", program)
	few := max(n/2, 10)
	list, err := h.list(few)
	loop := func(tool string, err error, env []string, start ...string) {
		argv := append([]string{"xargs", "-a", list, "-P", strconv.Itoa(loops), "-n", "1", "sh", "-c", `"$@" >/dev/null`, "sh"}, start...)
		h.add(tool, few*ranks, err, env, argv...)
	}
	// xargs appends the number of the member, which true and initfini do not read.
	loop("filch run", err, append(os.Environ(), m.env...), h.filch, "run", "-n", size, program)
	hydra := firstOf("mpiexec.hydra", "mpiexec.mpich")
	if hydra == "" {
		hydra = "mpiexec.hydra" // told as missing
	}
	loop("hydra", err, os.Environ(), hydra, "-n", size, program)
}
