// Package spec reads a user's command line, in srun's words, into the launcher's own
// types, and writes these types as options.
//
// The package opens no file and sends no query: files are handed in as bytes, the
// environment as a slice. Invalid input is an [filch.Error] of kind Invalid with a text
// of one line. [Parse] reads one command line, [Finish] applies the rules that need the
// whole command line; every value format also has a function of its own, since shims
// and batch scripts use the same formats.
package spec
