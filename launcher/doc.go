// Package launcher is the vocabulary of the launchers: requests of clients ([Request],
// [submit.Job]), messages between nodes ([Message]), the work of a driver ([Outbox]),
// reports of keepers and to clients ([Event]), and the records of jobs ([JobEntry],
// [JobRecord]).
//
// The package decides nothing: launcher/node decides, and imports this package. The
// package uses no clock, socket, goroutine, file or global random source.
package launcher
