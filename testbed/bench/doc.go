// Command bench runs filch and the launchers that people would use instead,
// side by side on this machine, and prints what each costs.
//
// Runs are alternated, one of each launcher after the other, so that a busy
// moment of the machine falls on all of them; a figure is the median, and what
// counts is the ratio. CPU time is that of everything that a launch causes,
// daemons included: where a cgroup can be made it is read there, else from the
// processes themselves. Hosts are pretended: hydra forks its proxies instead of
// calling ssh, Slurm runs four slurmd with names of their own. The column "in
// hosts" is hydra once more, its proxies in the hosts of filch's launchers, as
// theirs do not share memory and so cost MPI_Init more.
//
// It prints and gates nothing; testbed/bench/proof compares with the bars.
package main
