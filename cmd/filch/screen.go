package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// What the user reads: results on stdout; everything else on stderr, one line
// at a time, each beginning with "filch: ", lower case, no full stop. An error
// is followed by a hint when there is something to do about it. Nothing is
// said when all went well.

// manners are how this process speaks and what its exit codes mean: filch's own
// unless it was called by the name of another launcher.
type manners struct {
	name   string
	fault  int // the exit code of our own failures
	report func(*session, launcher.Ended)
	code   func(launcher.CauseKind, int32) int
	absent func(error) int // when there is no launcher to ask; nil: it is an error
	// crowded goes on when a run is refused for want of slots; nil: it is an error.
	crowded func(*filch.Error) int
}

var manner = manners{name: "filch", fault: filch.ExitOurs}

// rawTerminal is set while the terminal is in raw mode, where a newline alone
// does not return to the first column.
var rawTerminal atomic.Bool

func say(line string) {
	end := "\n"
	if rawTerminal.Load() {
		end = "\r\n"
	}
	_, _ = os.Stderr.WriteString(manner.name + ": " + clean(line) + end)
}

func warn(line string) {
	if manner.name != "filch" {
		say("Warning: " + line)
		return
	}
	say("warning: " + line)
}
func hint(line string) { say("hint: " + line) }

// complain prints err with its hint.
func complain(err error) {
	var e *filch.Error
	say("error: " + err.Error())
	if errors.As(err, &e) && e.Hint != "" {
		hint(e.Hint)
	}
}

// fail prints err and returns the exit code that goes with it.
func fail(err error) int {
	complain(err)
	return manner.fault
}

// usage is fail for a command line that makes no sense.
func usage(err error) int {
	complain(err)
	return filch.ExitUsage
}

// kindOf is the kind of an error of ours; Internal of any other.
func kindOf(err error) filch.Kind {
	var e *filch.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return filch.Internal
}

// clean makes s safe for a terminal: control characters, those of a format (which
// reverse a line or cannot be seen), and bytes that are no UTF-8, are written as
// escapes, so that a name cannot forge lines, move the cursor or pass for another.
func clean(s string) string {
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
