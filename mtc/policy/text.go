package policy

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

// Read reads a policy as [Policy.String] writes a policy: a name, and after a colon or a
// comma the values that are not defaults, as in "flds:threshold=12.5M,tt=10s,guess=200ms"
// or "mlb,victims=dvs".
func Read(text string) (p Policy, err error) {
	end := strings.IndexAny(text, ":,")
	name, rest, more := text, "", end >= 0
	if more {
		name, rest = text[:end], text[end+1:]
	}
	if p.Kind, err = ParseKind(name); err != nil || !more {
		return p, err
	}
	for part := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(part, "=")
		var ok bool
		switch {
		case key == "victims":
			if p.Victims, err = parseVictims(value); err != nil {
				return Policy{}, err
			}
			ok = true
		case key == "balance":
			if p.Balance, err = parseBalance(value); err != nil {
				return Policy{}, err
			}
			ok = true
		case key == "threshold" && p.thresholded():
			p.Threshold, ok = readRate(value)
		case key == "tt" && p.Kind == FLDS:
			p.LocalTime, ok = readSpell(value)
		case key == "guess" && p.Kind >= RLDS:
			p.Guess, ok = readSpell(value)
		}
		if !ok {
			return Policy{}, filch.Errorf(filch.Invalid, "%q is no option of the scheduling policy %s", part, p.Kind).
				WithHint("all policies take victims=CHOICE and balance=steal, give or both, rlds, flds, adage and auto guess=TIME, rlds and flds also threshold=BYTES-PER-SECOND, and flds tt=TIME: flds:threshold=12.5M,tt=10s,guess=200ms")
		}
	}
	return p, nil
}

// String is the policy in the form of [Read], without defaults.
func (p Policy) String() string {
	var parts []string
	if p.Threshold > 0 && p.thresholded() {
		parts = append(parts, "threshold="+strconv.FormatFloat(p.Threshold, 'f', -1, 64))
	}
	if p.LocalTime > 0 && p.Kind == FLDS {
		parts = append(parts, "tt="+p.LocalTime.String())
	}
	if p.Guess > 0 && p.Kind >= RLDS {
		parts = append(parts, "guess="+p.Guess.String())
	}
	if p.Victims != ByDefault {
		parts = append(parts, "victims="+p.Victims.String())
	}
	if p.Balance != ByStealing {
		parts = append(parts, "balance="+p.Balance.String())
	}
	if len(parts) == 0 {
		return p.Kind.String()
	}
	return p.Kind.String() + ":" + strings.Join(parts, ",")
}

// thresholded reports whether the policy has a threshold that a user may set.
func (p Policy) thresholded() bool { return p.Kind == RLDS || p.Kind == FLDS }

// Bound is t of Algorithm 1 in bytes per second, with the default if none is set;
// infinite for MLB.
func (p Policy) Bound() float64 { return p.threshold() }

// readRate reads bytes per second, with K, M or G for powers of a thousand.
func readRate(s string) (float64, bool) {
	unit := 1.0
	for i, u := range []string{"K", "M", "G"} {
		if cut, ok := strings.CutSuffix(s, u); ok {
			s, unit = cut, math.Pow(1000, float64(i+1))
			break
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	return n * unit, err == nil && n > 0 && !math.IsInf(n*unit, 0)
}

func readSpell(s string) (time.Duration, bool) {
	d, err := time.ParseDuration(s)
	return d, err == nil && d > 0
}
