// Package runclient is the client of one run: the client submits the job, prints
// the output of the ranks, passes standard input and signals on, and returns the
// exit code.
//
// Every launch runs this code, so the package links nothing heavy. A [Dialect]
// changes the messages and the exit codes of a run for a command with another
// launcher's name.
package runclient
