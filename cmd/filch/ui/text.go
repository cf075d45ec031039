package ui

import (
	"errors"
	"fmt"
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

// Few lists the first names, most at most, and how many more there are.
func Few(all []string, most int) string {
	var s []string
	for _, a := range all[:min(len(all), most)] {
		if len(a) > 60 {
			a = "..." + a[len(a)-57:]
		}
		s = append(s, Clean(a))
	}
	if len(all) > most {
		s = append(s, fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(s, ", ")
}
