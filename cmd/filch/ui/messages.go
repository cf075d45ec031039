package ui

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/filch-hpc/filch"
)

// The user reads results on stdout; everything else on stderr, one line at a
// time, each beginning with "filch: ", lower case, no full stop. An error is
// followed by a hint when the user can do something about the error. A success
// prints no message.

// Voice is the name in this process's messages and the meaning of its exit codes:
// filch's own unless filch was called by the name of another launcher.
type Voice struct {
	Name  string
	Fault int // the exit code of our own failures
}

var Self = Voice{Name: "filch", Fault: filch.ExitOurs}

// RawTerminal is set while the terminal is in raw mode, where a newline alone
// does not return to the first column.
var RawTerminal atomic.Bool

func Say(line string) {
	end := "\n"
	if RawTerminal.Load() {
		end = "\r\n"
	}
	_, _ = os.Stderr.WriteString(Self.Name + ": " + Clean(line) + end)
}

func Warn(line string) {
	if Self.Name != "filch" {
		Say("Warning: " + line)
		return
	}
	Say("warning: " + line)
}
func Hint(line string) { Say("hint: " + line) }

// Complain prints err with its hint.
func Complain(err error) {
	var e *filch.Error
	Say("error: " + err.Error())
	if errors.As(err, &e) && e.Hint != "" {
		Hint(e.Hint)
	}
}

// Fail prints err and returns the exit code for err.
func Fail(err error) int {
	Complain(err)
	return Self.Fault
}

// Usage is [Fail] for a senseless command line.
func Usage(err error) int {
	Complain(err)
	return filch.ExitUsage
}

// Refuse is [Usage] for a request that makes no sense, [Fail] for other errors; a shim has
// no code of its own for wrong input.
func Refuse(err error) int {
	if KindOf(err) == filch.Invalid && Self.Name == "filch" {
		return Usage(err)
	}
	return Fail(err)
}

// KindOf is the kind of a [filch.Error]; Internal of any other error.
func KindOf(err error) filch.Kind {
	var e *filch.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return filch.Internal
}

// Clean makes s safe for a terminal: control characters, format characters (which
// reverse a line or cannot be seen), and bytes that are no UTF-8, are written as
// escapes, so that a name cannot forge lines, move the cursor or pass for another
// name.
func Clean(s string) string {
	dirty := func(r rune) bool {
		if r < 0x7f {
			return r < ' '
		}
		return r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
	}
	if strings.IndexFunc(s, dirty) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if dirty(r) {
			q := strconv.QuoteToASCII(s[i : i+n])
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
