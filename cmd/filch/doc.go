// Command filch is the program that the user installs: the thin client of the
// launcher of this node, and the keeper that the launcher starts for each job.
//
// Package main has one file per command and no logic of its own: launcher/spec
// reads values, launcher/client finds launchers and talks to them. Two commands
// are on the path of every launch, run and keeper. Main runs both before building
// the command tree, and the binary links nothing that is slow to initialize.
package main
