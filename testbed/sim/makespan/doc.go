// Package makespan compares the shipped cores of tasks with schedulers that know all, in
// virtual time: how long workflows take in the order in which the cores start their tasks,
// beside critical-path lists, HEFT and min-min ([Order]); and how long workloads take with
// each policy ([Compare]).
package makespan
