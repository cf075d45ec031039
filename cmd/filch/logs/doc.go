// Package logs reads the output of jobs from all nodes, and prints the output: of jobs that
// have ended, and of jobs that run.
//
// A [Reader] asks every node for output, and the node answers once there is some. So a
// reader who does not read slows no task: the nodes keep the output, and the reader falls
// behind.
package logs
