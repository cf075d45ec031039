// Package spec reads what a user writes on a command line, in srun's words,
// into the launcher's own types, and writes them back.
//
// It opens no file and asks nobody: files are handed in as bytes, the
// environment as a slice. Whatever makes no sense is an [filch.Error] of kind
// Invalid with a text of one line. [Parse] reads one command line, [Finish]
// applies the rules that need all of it; every value format also has a
// function of its own, since shims and batch scripts use the same formats.
package spec
