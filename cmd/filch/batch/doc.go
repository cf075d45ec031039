// Package batch is filch pool: it defines the pools of an instance, and asks batch systems
// for their allocations.
//
// When an instance has a pool, the launcher of each node starts `filch pool keep`. One of
// these processes holds the pool (package pool decides, and says which), looks at the
// instance and at the batch system, and runs sbatch, squeue and scancel or their like.
// The batch script of an allocation joins the instance with filch up --join and runs `filch
// pool stay`, which ends when the record of the pool says so and nothing runs on the nodes.
package batch
