package ui

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"
)

func IsBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

func AllDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func HasAnyPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// Clock writes a time of day as users read it everywhere: the local time, to the second.
func Clock(t time.Time) string { return t.Local().Format(time.DateTime) }
