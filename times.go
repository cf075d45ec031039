package filch

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TimeMax bounds a time that a user writes: a longer time is a mistake.
const TimeMax = 10 * 366 * 24 * time.Hour

// ReadTime reads a time of at most [TimeMax], as users write times everywhere: with
// units (90s, 10m, 1h30m, 2d4h, 250ms), or in the forms of srun's --time: M, M:S, H:M:S,
// D-H, D-H:M and D-H:M:S, whose fields may exceed 59. A bare number is minutes.
func ReadTime(s string) (time.Duration, error) {
	if d, ok := slurmTime(s); ok {
		return d, timeFits(s, d)
	}
	d, ok := unitTime(s)
	if fraction(s) {
		return 0, Errorf(Invalid, "%q is not a time", s).WithHint("a number without a unit is whole minutes; with a unit, the number may have a fraction: %sm", s)
	}
	if !ok {
		return 0, Errorf(Invalid, "%q is not a time", s).
			WithHint("with units (90s, 10m, 1h30m), minutes (10), minutes:seconds (0:30), hours:minutes:seconds, or days-hours (1-12)")
	}
	return d, timeFits(s, d)
}

// fraction reports whether a text is a number with a fraction, without a unit.
func fraction(s string) bool {
	whole, part, dot := strings.Cut(s, ".")
	_, isWhole := timeField(whole)
	_, isPart := timeField(part)
	return dot && isWhole && isPart
}

func timeFits(s string, d time.Duration) error {
	if d <= TimeMax {
		return nil
	}
	return Errorf(Invalid, "the time %q is longer than ten years", s)
}

// unitTime reads a time with units; a time that is too long is more than [TimeMax].
func unitTime(s string) (time.Duration, bool) {
	days, rest, has := strings.Cut(s, "d")
	if !has {
		days, rest = "0", s
	}
	n, ok := timeField(days)
	if !ok || n > TimeMax.Hours()/24 {
		return TimeMax + 1, ok
	}
	sum := time.Duration(n) * 24 * time.Hour
	if has && rest == "" {
		return sum, true
	}
	d, err := time.ParseDuration(rest)
	if err != nil || rest[0] == '-' || rest[0] == '+' {
		return 0, false
	}
	return sum + min(d, TimeMax+1), true
}

// ShortTime writes a duration as users read durations everywhere, with two digits or
// more: 4.2ms, 250ms, 1.5s, 41s, 2m11s, 3h05m, 2d4h. [ReadTime] reads the text.
func ShortTime(d time.Duration) string {
	if d < 0 {
		return "-" + ShortTime(-d)
	}
	for _, u := range shortUnits {
		if r := d.Round(u.digit); r < u.below {
			return u.text(r)
		}
	}
	return twoParts(d.Round(time.Hour), 24*time.Hour, "d", time.Hour, "%d", "h")
}

// shortUnits are the forms of [ShortTime]: below a duration, with the last digit.
var shortUnits = []struct {
	below, digit time.Duration
	text         func(time.Duration) string
}{
	{100 * time.Microsecond, 100 * time.Microsecond, func(time.Duration) string { return "0s" }},
	{10 * time.Millisecond, 100 * time.Microsecond, tenths(time.Millisecond, "ms")},
	{time.Second, time.Millisecond, tenths(time.Millisecond, "ms")},
	{10 * time.Second, 100 * time.Millisecond, tenths(time.Second, "s")},
	{time.Minute, time.Second, tenths(time.Second, "s")},
	{time.Hour, time.Second, func(d time.Duration) string { return twoParts(d, time.Minute, "m", time.Second, "%02d", "s") }},
	{24 * time.Hour, time.Minute, func(d time.Duration) string { return twoParts(d, time.Hour, "h", time.Minute, "%02d", "m") }},
}

// tenths writes a number of units, with a tenth only if the tenth is not zero.
func tenths(unit time.Duration, name string) func(time.Duration) string {
	return func(d time.Duration) string {
		return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64) + name
	}
}

// twoParts writes a large and a small unit, the small unit only if not zero.
func twoParts(d, large time.Duration, name string, small time.Duration, format, smallName string) string {
	text := fmt.Sprintf("%d%s", d/large, name)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(format, rest) + smallName
	}
	return text
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
