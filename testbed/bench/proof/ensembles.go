package main

// ensembles are the promises about tasks that are MPI programs.
func ensembles() []promise {
	return []promise{
		{
			line: "16a", what: "ensembles of 500 MPI programs of 4 ranks on four hosts, MPICH and Open MPI, and two launchers are killed",
			bar:   "results right, none lost, none doubled unsaid, no attempts side by side, `--once` never twice",
			tests: []suite{{dir: "./testbed/faults", run: "^TestEnsembles$", tags: "root"}},
		},
		{
			line: "16b", what: "a workflow of a process, 20 simulations by LAMMPS of 4 ranks and a process, on four hosts without a common folder",
			bar:   "results as by single processes",
			tests: []suite{{dir: "./testbed/mpi", run: "^TestWorkflowOfLAMMPS$", tags: "root"}},
		},
		{
			line: "16c", what: "the recipes of docs/ensembles.md; scripts/sbatch/ensemble.sbatch in a Slurm job", bar: "all run as they stand there",
			tests: []suite{{dir: "./cmd/filch", run: "^TestEnsembleRecipes$"}, {dir: "./testbed/slurm", run: "^TestTemplateOfAnEnsemble$", tags: "root"}},
		},
	}
}
