package main

// promises lists what is promised, in the order of the table.
func promises() []promise {
	return []promise{
		{
			line: "1", what: "MPICH's examples, NetPIPE and ScaLAPACK's self-checks over 2 and 4 hosts",
			bar:   "sizes right, bytes on every host's wire",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestAcceptance"}},
		},
		{
			line: "2", what: "launches in a row of 2+2 ranks that go straight to MPI_Finalize over TCP",
			bar:   "200 launches, 0 hangs",
			tests: []suite{{dir: "./testbed/mpi", run: "Finalize"}},
		},
		{
			line: "3", what: "the table of ends, row by row",
			bar:   "no survivor, slots whole, codes right",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestEnds"}, {dir: "./testbed/compose", tags: "compose"}},
		},
		{
			line: "4", what: "simulator: scenarios, fault seeds, planted bugs",
			bar:   "makespan <= 1.02 x ideal, <= 12 messages per node and job, 0 violations, each bug caught",
			tests: []suite{{dir: "./testbed/sim"}},
		},
		{
			line: "5", what: "every option has a script; a flood and 128 launchers stay bounded",
			bar:   "all pass; < 100 MB; <= 64 connections",
			tests: []suite{{dir: "./cmd/filch"}, {dir: "./testbed/scale"}, {dir: "./dht/overlay/..."}},
		},
		{
			line: "6a", what: "launches beside mpiexec.hydra", bar: "<= 1.0 x hydra everywhere",
			bench: launchesWithin("hydra", "", hydraBar),
		},
		{
			line: "6b", what: "launches of true beside srun", bar: "<= 0.3 x srun",
			bench: launchesWithin("srun", "true", srunBar),
		},
		{
			line: "6c", what: "jobs a second, four ranks of true each", bar: "> 205/s from eight clients",
			bench: rates,
		},
		{
			line: "6d", what: "idle launchers, before and after 10,000 jobs", bar: "CPU < 0.1 %, RSS < 40 MB, flat",
			bench: idle,
		},
		{
			line: "7", what: "everything under the race detector; no fixed sleeps", bar: "clean",
			tests: []suite{{dir: "./...", race: true, env: []string{"FILCH_PROOF="}}},
		},
	}
}
