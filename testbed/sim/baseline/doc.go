// Package baseline has the schedulers that the papers compare with, over the engine of the
// simulators: what they would do with the workloads of filch. Nothing of it ships.
//
// A baseline is a policy and few costs. Each cost is a figure of a paper, or is fitted to one
// figure and said to be; the tests hold the baseline to the other figures. All times are
// virtual, all draws come from a seed.
//
// [Central] is one dispatcher with a cost a task. [Slurm] and [Falkon] are its costs.
//
// [Stealing] is MATRIX v1, 3.1: algorithms 1 and 2 as printed. The cost of a moved task, 34 us,
// is fitted to the efficiency of 88 % with 1,024 nodes and tasks of a second that all start at
// one node (4.2.3). Two figures of the paper cannot hold together, whatever the costs: 13,000
// tasks of no length a second with 4,096 cores (4.2.1), and 85 % with tasks of 64 ms (abstract),
// which are 54,000 a second. The package holds the second, with tasks that start at all nodes.
package baseline
