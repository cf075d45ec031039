// Command filch is what the user installs: the thin client of the launcher of
// this node, and the keeper that the launcher starts for each job.
//
// It has one file per command and no logic of its own: values are read by
// launcher/spec, launchers are found and spoken to by launcher/client. Two
// commands are on the path of every launch, run and keeper; they are taken
// before the command tree is built, and nothing that is slow to initialize is
// linked in.
package main
