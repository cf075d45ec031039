// Package proc holds the parts that a keeper and a runner share: both are processes of
// filch, fork other processes on a node and outlive no job.
//
// The package has the epoll loop and its timers, the link to the launcher, cgroups, fork
// and exec with limits and affinity, the environment of ranks, the check of a program
// before its start, and the search for processes left by a dead keeper ([SweepOrphans]).
// A launcher starts both kinds by [Spawn] and [SpawnRunner]. Package keeper holds the
// ranks of one job on a node, package runner the tasks.
//
// Everything here runs on the single locked thread of the process, unless a comment says
// otherwise.
package proc
