package spec

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

func invalid(format string, args ...any) *filch.Error {
	return filch.Errorf(filch.Invalid, format, args...)
}

// digits reports whether s consists of at least one decimal digit and nothing else.
func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// Count reads a number of ranks or nodes: digits with an optional k (1,024)
// or m (1,048,576) behind them.
func Count(s string) (int32, error) {
	t, unit := s, int64(1)
	if t != "" {
		switch t[len(t)-1] {
		case 'k', 'K':
			t, unit = t[:len(t)-1], 1<<10
		case 'm', 'M':
			t, unit = t[:len(t)-1], 1<<20
		}
	}
	if !digits(t) {
		return 0, invalid("%q is not a count", s)
	}
	n, err := strconv.ParseInt(t, 10, 32)
	if err != nil || n*unit > math.MaxInt32 {
		return 0, invalid("%q is too large for a count", s)
	}
	return int32(n * unit), nil
}

// Positive is [Count] without zero.
func Positive(s string) (int32, error) {
	n, err := Count(s)
	if err == nil && n == 0 {
		err = invalid("%q is not a positive count", s)
	}
	return n, err
}

// Nodes reads a node count, N or MIN-MAX.
func Nodes(s string) (least, most int32, err error) {
	low, high, ranged := strings.Cut(s, "-")
	if least, err = Positive(low); err != nil {
		return 0, 0, invalid("%q is not a node count", s)
	}
	if !ranged {
		return least, least, nil
	}
	if most, err = Positive(high); err != nil {
		return 0, 0, invalid("%q is not a node count", s)
	}
	if most < least {
		return 0, 0, invalid("node count %q: the maximum %d is below the minimum %d", s, most, least)
	}
	return least, most, nil
}

// FormatNodes is the inverse of [Nodes].
func FormatNodes(least, most int32) string {
	s := strconv.Itoa(int(least))
	if most > least {
		s += "-" + strconv.Itoa(int(most))
	}
	return s
}

// Time reads a time limit, as [filch.ReadTime] does. The result is 0, no limit, for 0,
// INFINITE, UNLIMITED and -1.
func Time(s string) (time.Duration, error) {
	switch strings.ToUpper(s) {
	case "INFINITE", "UNLIMITED", "-1":
		return 0, nil
	}
	return filch.ReadTime(s)
}

// Seconds reads a time of an option whose bare number is seconds in srun, fractions
// allowed; other forms are those of [filch.ReadTime].
func Seconds(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if !(f >= 0) || f > filch.TimeMax.Seconds() || strings.ContainsAny(s, "xXpP_") {
			return 0, invalid("%q is not a time", s)
		}
		return time.Duration(f * float64(time.Second)), nil
	}
	d, err := filch.ReadTime(s)
	if err != nil {
		return 0, invalid("%q is not a time", s).WithHint("seconds (30, 0.5), with units (90s, 10m, 1h30m), minutes:seconds (0:30), hours:minutes:seconds, or days-hours (1-12)")
	}
	return d, nil
}

// Memory reads a size, a number with K, M, G or T behind the digits; without a unit the
// number is in MiB, as in srun.
func Memory(s string) (int64, error) {
	t, shift := strings.TrimSuffix(strings.ToUpper(s), "B"), 20
	if t == strings.ToUpper(s) || len(t) > 1 && !digits(t[len(t)-1:]) {
		t = strings.TrimSuffix(t, "I")
	}
	if t != "" {
		if i := strings.IndexByte("KMGT", t[len(t)-1]); i >= 0 {
			t, shift = t[:len(t)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil || !digits(t) {
		return 0, invalid("%q is not a memory size", s)
	}
	if n > math.MaxInt64>>shift {
		return 0, invalid("memory size %q is too large", s)
	}
	return n << shift, nil
}

// FormatMemory is the inverse of [Memory], in the largest unit without a rest.
func FormatMemory(bytes int64) string {
	units := [...]string{"K", "M", "G", "T"}
	if bytes <= 0 {
		return "0"
	}
	n, unit := (bytes+1023)>>10, 0
	for unit < len(units)-1 && n%1024 == 0 {
		n, unit = n>>10, unit+1
	}
	return strconv.FormatInt(n, 10) + units[unit]
}
