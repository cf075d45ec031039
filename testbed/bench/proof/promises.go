package main

import "slices"

// promises lists what is promised, in the order of the table.
func promises() []promise {
	return slices.Concat(programs(), records(), manyTasks(), allocations(), measures(), stores(), sound(), everyday(), following(), staging(), ensembles())
}

// instanceSeeds is how many seeds of whole nodes the proof runs. Ranges of them that
// broke no rule count for as long as the sources stay.
const instanceSeeds = "20000"

// programs are the promises that tests keep.
func programs() []promise {
	return []promise{
		{
			line: "1", what: "MPICH's examples, NetPIPE and ScaLAPACK's self-checks over 2 and 4 hosts",
			bar:   "all pass, bytes on every host's wire",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestPrograms$", tags: "root"}},
		},
		{
			line: "2", what: "launches in a row of 2+2 ranks that go straight to MPI_Finalize over TCP",
			bar:   "200 launches, 0 hangs",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestStraightToFinalize$", tags: "root"}},
		},
		{
			line: "3a", what: "the table of ends, row by row, and ends of all kinds, over several hosts",
			bar:   "no survivor, slots whole, codes right",
			tests: []suite{{dir: "./testbed/mpi", run: "Dies$|Die$|Launcher|Pause|Stopped|Killed|Endings|Starts|Interrupt", tags: "root"}},
		},
		{
			line: "3b", what: "the table of ends at every step of the protocol, in virtual time",
			bar:   "no survivor, slots whole, codes right",
			tests: []suite{{dir: "./launcher/node"}, {dir: "./launcher/proc", tags: "root"}, {dir: "./launcher/daemon", tags: "root"}},
		},
		{
			line: "3c", what: "containers: nodes killed, paused, cut off", bar: "the rest goes on",
			tests: []suite{{dir: "./testbed/compose", tags: "compose"}},
		},
		{
			line: "4a", what: "simulator: an ideal central queue beside gathering, at 1,024 nodes",
			bar:   "makespan <= 1.02 x FIFO, <= 12 messages per node and job",
			tests: []suite{{dir: "./testbed/sim/instance", run: "^TestScenarios$|^TestRoundOne|^TestNeverFits$"}},
		},
		{
			line: "4b", what: "whole nodes in virtual time, 3 to 64 of them: fault seeds; a launcher that dies at every step",
			bar: instanceSeeds + " seeds, 0 violations, same seed same hash",
			tests: []suite{
				{dir: "./testbed/sim/instance", run: "^TestFaultSeeds$", env: []string{"FILCH_SEEDS=" + instanceSeeds}},
				{dir: "./testbed/sim/instance", run: "^TestSameSeed|^TestCrash"},
			},
		},
		{
			line: "4c", what: "simulator: planted bugs", bar: "each caught",
			tests: []suite{{dir: "./testbed/sim/instance", run: "^TestMutantsAreCaught$", tags: "mutants"}},
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
			tests: []suite{{dir: "./testbed/scale", run: "^TestRootFlood|^TestRootLaunchersKeep", tags: "root"}},
		},
		{
			line: "8a", what: "Open MPI: hpcc, ScaLAPACK, NetPIPE, mpi4py, direct modex over 2 hosts; LAMMPS, 16 replicas",
			bar:   "all pass, replicas as if serial",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestOpenPrograms$|^TestLAMMPS$", tags: "root"}},
		},
		{
			line: "8b", what: "Open MPI: ends of all kinds; helper, keeper, launcher killed", bar: "codes right, no segment left",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestOpenEndings$|^TestOpenKills$|^TestOpenLauncherReturns$", tags: "root"}},
		},
	}
}

// openMPI is how the bench calls launches through PMIx.
const openMPI = "Open MPI Init+Fin."

// allocations are the promises about batch allocations, on a real Slurm.
func allocations() []promise {
	return []promise{
		{
			line: "9a", what: "launchers on every node of a Slurm job; the batch scripts of scripts/", bar: "up, right, and gone with the job",
			tests: []suite{{dir: "./testbed/slurm", run: "^TestUp|^TestTemplate", tags: "root"}, {dir: "./cmd/filch", run: "^TestScripts$/^up-(hosts|pbs)$"}},
		},
		{
			line: "9b", what: "2,000 steps of an unmodified srun loop", bar: "no request to slurmctld, <= 15 ms a shim call",
			tests: []suite{{dir: "./testbed/slurm", run: "^TestShimLoop|^TestMPIShims$", tags: "root"}},
		},
		{
			line: "9c", what: "srun command lines with srun and with the shim; the variables of jobs and steps, with GPUs too", bar: ">= 60 say the same, variables differ by name only",
			tests: []suite{{dir: "./testbed/slurm", run: "^TestShimSays|^TestShimPlaces|^TestShim(GPU)?Environment$", tags: "root"}},
		},
		{
			line: "9d", what: "Snakemake --slurm and --cluster, Toil, cwltool through the shims; the calls of other clients", bar: "20 jobs each",
			tests: []suite{{dir: "./testbed/slurm", run: "^TestSnakemake|^TestToil$|^TestCwltool$", tags: "root,clients"}, {dir: "./cmd/filch", run: "^TestScripts$/^up-batch$"}},
		},
		{
			line: "9e", what: "steps a second of a loop beside srun's", bar: ">= 10 x srun",
			bench: steps,
		},
		{
			line: "9f", what: "ten allocations of a minute drain one queue; a third of them are killed, a third end as by their time limit",
			bar:   "no task lost, only those of the last seconds run again, no `--once` task twice, <= 5 % of the core time lost at ordinary ends",
			tests: []suite{{dir: "./testbed/slurm", run: "^TestAllocationsDrain", tags: "root"}, {dir: "./cmd/filch", run: "^TestScripts$/^up-(resume|learn)$"}},
		},
		{
			line: "9g", what: "two allocations as one instance: steals inside and between them", bar: ">= 75 % inside, far work found",
			tests: []suite{{dir: "./mtc", run: "^TestStealsStayNear$|^TestFarWork|^TestResume"}},
		},
		{
			line: "9h", what: "two allocations joined by an invitation drain one bag, and are cut off from each other: for seconds, and for longer than the detection of failures",
			bar:   "no task lost, no `--once` task twice, the bag ends",
			tests: []suite{{dir: "./testbed/faults", run: "^TestTwoAllocations", tags: "root"}},
		},
	}
}

// storeSeeds is how many seeds of the store's simulator the proof runs.
const storeSeeds = "100000"

// records are the promises about the shared store and the tasks in it.
func records() []promise {
	return []promise{
		{
			line: "10a", what: "store simulator: histories under faults, held against porcupine", bar: storeSeeds + " seeds, 0 illegal",
			tests: []suite{{dir: "./testbed/sim/store", run: "^TestStoreSeeds$", env: []string{"FILCH_SEEDS=" + storeSeeds}}},
		},
		{
			line: "10b", what: "store simulator: planted bugs", bar: "each caught within its budget of seeds",
			tests: []suite{{dir: "./testbed/sim/store", run: "^TestStoreMutants", tags: "mutants"}},
		},
		{
			line: "10c", what: "real launchers killed, stopped, cut off, on a full disk, under ten clients",
			bar:   "one order of events, nothing lost, without service < 1.5 s (p99)",
			tests: []suite{{dir: "./testbed/faults", run: "^TestStore", tags: "root"}},
		},
		{
			line: "11a", what: "bags of tasks on launchers that are killed, stopped and cut off",
			bar:   "one end each, executions <= attempts, `--once` never twice",
			tests: []suite{{dir: "./testbed/faults", run: "^TestTasks", tags: "root"}},
		},
		{
			line: "11b", what: "tasks in virtual time: faults, balance, planted faults of the papers' code",
			bar:   "one end each, >= 95 % at 1,024 slots",
			tests: []suite{{dir: "./testbed/sim/tasks"}, {dir: "./mtc"}},
		},
		{
			line: "11c", what: "BLAST, POV-Ray and a Montage mosaic of 138 processes on four hosts without a common folder, under each policy",
			bar:   "bit by bit as one after the other",
			tests: []suite{{dir: "./testbed/faults", run: "^TestReal$", tags: "root"}},
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
			line: "8c", what: "Open MPI's MPI_Init+Finalize beside mpirun", bar: "<= 1.0 x mpirun",
			bench: launchesWithin("mpirun", openMPI, 1, hydraBar),
		},
		{
			line: "8d", what: "the same beside srun --mpi=pmix, on one node and over four", bar: "<= 1.0 x srun",
			bench: launchesWithin("srun", openMPI, 0, hydraBar),
		},
		{
			line: "7", what: "everything under the race detector; no fixed sleeps", bar: "clean",
			tests: []suite{{dir: "./...", tags: "root", race: true, env: []string{"FILCH_PROOF="}}},
		},
	}
}
