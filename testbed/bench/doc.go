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
// The store of jobs and tasks is measured beside go-libp2p-kad-dht's own values
// and beside etcd, whose commits are all synced: compare it with what is called
// durable.
//
// Tasks are /bin/true, beside a loop of posix_spawn in C, which is as fast as the
// kernel goes, beside xargs, make and GNU parallel, which record nothing, and
// beside Work Queue, whose manager is a small program of ours; and the same while
// up to a million of them wait. Tasks without a process show what balancing and
// recording cost, tasks that sleep how well slots are kept busy, and workflows of
// simple shapes what launchers say to each other, by the kinds of messages.
//
// The two applications of MATRIX v2 show what each scheduling policy makes of tasks
// that read large files: how long they take, and how many run where their files are.
//
// A bag of tasks that burn CPU shows what one slow node of eight costs: each node has
// a quota of CPU, and one a tenth of the quota. This needs the right to make cgroups.
//
// Calls of Python functions on one launcher stand beside CPython's and Dask's executors.
//
// It prints and gates nothing; testbed/bench/proof compares with the bars.
package main
