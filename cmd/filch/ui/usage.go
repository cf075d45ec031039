package ui

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// ShortSize writes a number of bytes with three digits and a unit of 1024 bytes: 640K,
// 1.25G.
func ShortSize(n int64) string {
	v, unit := float64(n)/1024, 0
	for units := len("KMGT"); v >= 999.5 && unit < units-1; unit++ {
		v /= 1024
	}
	digits := 2
	switch {
	case v >= 99.95 || unit == 0:
		digits = 0
	case v >= 9.995:
		digits = 1
	}
	return fmt.Sprintf("%.*f%c", digits, v, "KMGT"[unit])
}

// Peak is the peak of memory: 1.25G; <9M if the peak is an upper bound; "-" if not known.
func Peak(u *launcher.Used) string {
	switch {
	case u.Peak == 0:
		return "-"
	case u.AtMost:
		return "<" + ShortSize(u.Peak)
	}
	return ShortSize(u.Peak)
}

// CPU is the processor time; "-" if not known.
func CPU(u *launcher.Used) string {
	if *u == (launcher.Used{}) {
		return "-"
	}
	return filch.ShortTime(seconds(u.User + u.System))
}

// Modes is the processor time with its parts: 3m12s (3m10s user, 2.0s system); "" if not
// known.
func Modes(u *launcher.Used) string {
	if *u == (launcher.Used{}) {
		return ""
	}
	return fmt.Sprintf("%s (%s user, %s system)", CPU(u), filch.ShortTime(seconds(u.User)), filch.ShortTime(seconds(u.System)))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
