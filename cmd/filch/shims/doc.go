// Package shims has the commands of other launchers: srun, mpiexec and mpirun,
// the commands of Slurm that ask about jobs, sbatch, and the ssh of a launcher
// that starts its agents by ssh.
//
// A shim reads the command line of the other launcher and starts the program
// through the instance. The shim hands an unsupported command line to the real
// command.
package shims
