package ui

import (
	"fmt"
	"os"
	"syscall"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// ExitStatus ends a command with the exit code Code, silently.
type ExitStatus struct{ Code int }

func (e ExitStatus) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// Misuse is the error of a senseless command line: one line and exit code 2.
type Misuse struct{ err error }

func (m Misuse) Error() string { return m.err.Error() }

func (m Misuse) Unwrap() error { return m.err }

// Misused marks err as the error of a senseless command line.
func Misused(err error) error { return Misuse{err: err} }

// Exit ends a command with the exit code code and prints nothing.
func Exit(code int) error { return ExitStatus{Code: code} }

// CodeOf is the exit code that a shell would report for a process.
func CodeOf(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return filch.ExitSignalBase + int(w.Signal())
	}
	return s.ExitCode()
}

// Cause is the reason of a fault of a file or a program: [place.Cause].
func Cause(err error) string { return place.Cause(err) }
