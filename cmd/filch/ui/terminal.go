package ui

import (
	"os"
	"sync"
	"syscall"

	"github.com/filch-hpc/filch/launcher"
	"golang.org/x/term"
)

const (
	SIGINT  = int32(syscall.SIGINT)
	SIGTERM = int32(syscall.SIGTERM)
	SIGPIPE = int32(syscall.SIGPIPE)
)

func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

var toTerminal = sync.OnceValue(func() bool { return IsTerminal(os.Stdout) })

// Clip shortens a cell of a table on a terminal. A program behind a pipe, and a file, get
// the whole text.
func Clip(s string, most int) string {
	if r := []rune(s); len(r) > most && toTerminal() {
		return string(r[:most-1]) + "…"
	}
	return s
}

// colors reports whether text for f may have colors: f is a terminal that knows colors,
// and the user has not set NO_COLOR (no-color.org).
func colors(f *os.File) bool {
	return IsTerminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// IsNull reports whether f is the null device.
func IsNull(f *os.File) bool {
	var s syscall.Stat_t
	const null = 1<<8 | 3 // major 1, minor 3
	return syscall.Fstat(int(f.Fd()), &s) == nil && s.Mode&syscall.S_IFMT == syscall.S_IFCHR && s.Rdev == null
}

// TerminalSize is the size of our terminal, or the usual size without a terminal.
func TerminalSize() launcher.Window {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if cols, rows, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 && rows > 0 {
			return launcher.Window{Rows: uint16(min(rows, 1<<16-1)), Cols: uint16(min(cols, 1<<16-1))}
		}
	}
	return launcher.Window{Rows: 24, Cols: 80}
}
