package filch

import (
	"strconv"
	"strings"
	"time"
)

// TimeMax bounds a time that a user writes: a longer time is a mistake.
const TimeMax = 10 * 366 * 24 * time.Hour

// ReadTime reads a time of at most [TimeMax], as users write times everywhere: with
// units (90s, 10m, 1h30m, 250ms), or in the forms of srun's --time: M, M:S, H:M:S,
// D-H, D-H:M and D-H:M:S, whose fields may exceed 59. A bare number is minutes.
func ReadTime(s string) (time.Duration, error) {
	if d, ok := slurmTime(s); ok {
		return d, timeFits(s, d)
	}
	d, err := time.ParseDuration(s)
	if err != nil || s[0] == '-' || s[0] == '+' {
		return 0, Errorf(Invalid, "%q is not a time", s).
			WithHint("with units (90s, 10m, 1h30m), minutes (10), minutes:seconds (0:30), hours:minutes:seconds, or days-hours (1-12)")
	}
	return d, timeFits(s, d)
}

func timeFits(s string, d time.Duration) error {
	if d <= TimeMax {
		return nil
	}
	return Errorf(Invalid, "the time %q is longer than ten years", s)
}

// slurmTime reads srun's forms; a time that is too long is more than [TimeMax].
func slurmTime(s string) (time.Duration, bool) {
	days, rest, dashed := strings.Cut(s, "-")
	if !dashed {
		days, rest = "0", s
	}
	fields := strings.Split(rest, ":")
	if len(fields) > 3 {
		return 0, false
	}
	units := [3]float64{3600, 60, 1}
	first := 0
	if !dashed && len(fields) < 3 {
		first = 1
	}
	n, ok := timeField(days)
	sum := n * 86400
	for i, f := range fields {
		n, good := timeField(f)
		ok, sum = ok && good, sum+n*units[first+i]
	}
	if sum > TimeMax.Seconds() {
		return TimeMax + 1, ok
	}
	return time.Duration(sum) * time.Second, ok
}

func timeField(s string) (float64, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return float64(n), err == nil && s[0] != '+'
}
