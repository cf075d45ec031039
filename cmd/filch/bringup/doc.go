// Package bringup starts and ends the launchers of an instance: on this machine,
// over the nodes of an allocation, and on a joining machine.
//
// The coordinator is the process of filch up; the coordinator starts an agent on
// each node by srun or ssh, and each agent starts the launchers of its machine.
package bringup
