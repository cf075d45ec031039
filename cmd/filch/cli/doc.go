// Package cli is the code that the commands of filch share: the options of every
// command, the connection to the launcher of this node, queries with their
// deadlines, the names of jobs on a command line, and the environment that a job
// inherits.
package cli
