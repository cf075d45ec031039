package main

// promises lists what is promised, in the order of the table.
func promises() []promise {
	return append(programs(), measures()...)
}

// programs are the promises that tests keep.
func programs() []promise {
	return []promise{
		{
			line: "1", what: "MPICH's examples, NetPIPE and ScaLAPACK's self-checks over 2 and 4 hosts",
			bar:   "all pass, bytes on every host's wire",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestPrograms$"}},
		},
		{
			line: "2", what: "launches in a row of 2+2 ranks that go straight to MPI_Finalize over TCP",
			bar:   "200 launches, 0 hangs",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestStraightToFinalize$"}},
		},
		{
			line: "3a", what: "the table of ends, row by row, and ends of all kinds, over several hosts",
			bar:   "no survivor, slots whole, codes right",
			tests: []suite{{dir: "./testbed/mpi", run: "Dies$|Die$|Launcher|Pause|Stopped|Killed|Endings|Starts|Interrupt"}},
		},
		{
			line: "3b", what: "the table of ends at every step of the protocol, in virtual time",
			bar:   "no survivor, slots whole, codes right",
			tests: []suite{{dir: "./launcher"}, {dir: "./launcher/proc"}, {dir: "./launcher/daemon"}},
		},
		{
			line: "3c", what: "containers: nodes killed, paused, cut off", bar: "the rest goes on",
			tests: []suite{{dir: "./testbed/compose", tags: "compose"}},
		},
		{
			line: "4a", what: "simulator: an ideal central queue beside gathering, at 1,024 nodes",
			bar:   "makespan <= 1.02 x FIFO, <= 12 messages per node and job",
			tests: []suite{{dir: "./testbed/sim", run: "^TestScenarios$|^TestRoundOne|^TestNeverFits$"}},
		},
		{
			line: "4b", what: "simulator: fault seeds", bar: "3,000 seeds, 0 violations, same seed same hash",
			tests: []suite{{dir: "./testbed/sim", run: "^TestFaultSeeds$|^TestSameSeed|^TestCrash"}},
		},
		{
			line: "4c", what: "simulator: planted bugs", bar: "each caught",
			tests: []suite{{dir: "./testbed/sim", run: "^TestMutantsAreCaught$", tags: "mutants"}},
		},
		{
			line: "4d", what: "a trace of 64 real launchers", bar: "round one asks few, each lends half at most; a local job says nothing",
			tests: []suite{{dir: "./testbed/scale", run: "^TestGather"}},
		},
		{
			line: "5a", what: "every option has a script; srun's text where Debian's srun has it", bar: "all pass",
			tests: []suite{{dir: "./cmd/filch"}},
		},
		{
			line: "5b", what: "a rank that writes 10 GB; connections of 128 launchers",
			bar:   "each process of ours < 100 MB; <= 64 each",
			tests: []suite{{dir: "./testbed/scale", run: "^TestFlood|^TestLaunchersKeep"}},
		},
	}
}

// measures are those that the bench keeps, and the last one.
func measures() []promise {
	return []promise{
		{
			line: "6a", what: "launches of true beside mpiexec.hydra on pretended hosts", bar: "<= 1.0 x hydra",
			bench: launchesWithin("hydra", "true", 0, hydraBar),
		},
		{
			line: "6b", what: "MPI_Init+Finalize on one host beside mpiexec.hydra", bar: "<= 1.0 x hydra",
			bench: launchesWithin("hydra", "MPI_Init+Finalize", 1, hydraBar),
		},
		{
			line: "6c", what: "MPI_Init+Finalize over four hosts beside mpiexec.hydra in the same four", bar: "<= 1.0 x hydra",
			bench: launchesWithin("in hosts", "MPI_Init+Finalize", 4, hydraBar),
		},
		{
			line: "6d", what: "launches of true beside srun", bar: "<= 0.3 x srun",
			bench: launchesWithin("srun", "true", 0, srunBar),
		},
		{
			line: "6e", what: "jobs a second, four ranks of true each", bar: "> 205/s from eight clients on one launcher",
			bench: rates,
		},
		{
			line: "6f", what: "idle launchers, before and after 10,000 jobs", bar: "CPU < 0.1 %, RSS < 40 MB, flat",
			bench: idle,
		},
		{
			line: "7", what: "everything under the race detector; no fixed sleeps", bar: "clean",
			tests: []suite{{dir: "./...", race: true, env: []string{"FILCH_PROOF="}}},
		},
	}
}
