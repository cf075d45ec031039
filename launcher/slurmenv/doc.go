// Package slurmenv makes the variables SLURM_* that srun and sbatch set.
//
// One table, [Variables], has every variable with its meaning and its value. A process
// that knows some facts about a job fills a [Facts] and calls [Environ]: the client knows
// the options and the submitter, the keeper knows nodes and ranks, the process around a
// batch script knows the array. A variable whose facts are missing is left out.
// [Merge] puts the result into an environment.
//
// A step of a batch job has the variables of that job, unchanged, and variables of its
// own for the step. [Around] finds the batch job in an environment. The package knows a
// job of filch by the variable FILCH_SLURM_JOB: the jobs of a real Slurm do not have this
// variable.
package slurmenv
