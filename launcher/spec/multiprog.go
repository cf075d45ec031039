package spec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// Limits on a --multi-prog file.
const (
	MaxMultiProgBytes = 4 << 20
	maxMultiProgLines = 1 << 16
)

// MultiProg reads a --multi-prog file for a run of size ranks: lines of
// RANKS PROGRAM ARGUMENTS, where RANKS is like 4-6,8 or, in the last line, *
// for all others. # in the first column begins a comment, single quotes
// protect, a backslash at the end joins lines. extra is appended to every
// argv. Every rank must have a program and only one.
func MultiProg(text string, size int32, extra []string) ([]launcher.Program, error) {
	if len(text) > MaxMultiProgBytes {
		return nil, invalid("a program file of %d bytes, %d at most", len(text), MaxMultiProgBytes)
	}
	if size < 1 || size > launcher.MaxRanks {
		return nil, invalid("%d ranks for a program file", size)
	}
	taken := make([]bool, size)
	var programs []launcher.Program
	star := 0
	for _, l := range joinLines(text) {
		words, err := splitQuoted(l.text)
		if err != nil {
			return nil, invalid("line %d: %v", l.number, err)
		}
		if len(words) == 0 {
			continue
		}
		if star > 0 {
			return nil, invalid("line %d: nothing may follow the * of line %d", l.number, star)
		}
		if len(words) < 2 {
			return nil, invalid("line %d: ranks %s without a program", l.number, clip(words[0]))
		}
		if words[0] == "*" {
			star = l.number
		}
		spans, err := rankSpans(words[0], taken)
		if err != nil {
			return nil, invalid("line %d: %v", l.number, err)
		}
		if len(spans) == 0 {
			continue // the * of a file with a program for every rank already
		}
		if len(programs) == maxMultiProgLines {
			return nil, invalid("a program file of more than %d lines", maxMultiProgLines)
		}
		argv := append(slices.Clone(words[1:]), extra...)
		if star > 0 { // for srun, the offset of a rank of * is the rank
			for i := range argv {
				argv[i] = strings.ReplaceAll(argv[i], "%o", "%t")
			}
		}
		programs = append(programs, launcher.Program{Argv: argv, Expand: true, Ranks: spans})
	}
	if i := slices.Index(taken, false); i >= 0 {
		return nil, invalid("rank %d of 0-%d has no program", i, size-1)
	}
	return programs, nil
}

type line struct {
	number int
	text   string
}

// joinLines drops comments and joins lines that end in a backslash.
func joinLines(text string) []line {
	var lines []line
	open := false
	for i, l := range strings.Split(text, "\n") {
		if !open && strings.HasPrefix(l, "#") {
			continue
		}
		l = strings.TrimSuffix(l, "\r")
		body, joined := strings.CutSuffix(l, "\\")
		if open {
			lines[len(lines)-1].text += body
		} else {
			lines = append(lines, line{i + 1, body})
		}
		open = joined
	}
	return lines
}

// splitQuoted cuts s at blanks outside of single quotes.
func splitQuoted(s string) ([]string, error) {
	var words []string
	var b strings.Builder
	in, quoted := false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\'':
			in, quoted = true, !quoted
		case (c == ' ' || c == '\t') && !quoted:
			if in {
				words = append(words, b.String())
				b.Reset()
			}
			in = false
		default:
			in = true
			b.WriteByte(c)
		}
	}
	if quoted {
		return nil, invalid("a quote without its end")
	}
	if in {
		words = append(words, b.String())
	}
	return words, nil
}

// rankSpans reads ranks like 4-6,8 or *, and marks them as taken.
func rankSpans(s string, taken []bool) ([]launcher.Span, error) {
	var ranks []int32
	if s == "*" {
		for r, t := range taken {
			if !t {
				ranks = append(ranks, int32(r))
			}
		}
		return spans(ranks, taken), nil
	}
	for part := range strings.SplitSeq(s, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		first, err1 := strconv.ParseInt(low, 10, 32)
		last, err2 := strconv.ParseInt(high, 10, 32)
		if err1 != nil || err2 != nil || !digits(low) || !digits(high) || last < first {
			return nil, invalid("%s is not a list of ranks", clip(s))
		}
		if last >= int64(len(taken)) {
			return nil, invalid("rank %d is beyond the last, %d", last, len(taken)-1)
		}
		for r := first; r <= last; r++ {
			if taken[r] {
				return nil, invalid("rank %d has a program already", r)
			}
			taken[r] = true
			ranks = append(ranks, int32(r))
		}
	}
	slices.Sort(ranks)
	return spans(ranks, taken), nil
}

// spans folds ascending ranks and marks them as taken.
func spans(ranks []int32, taken []bool) []launcher.Span {
	var s []launcher.Span
	for _, r := range ranks {
		taken[r] = true
		if n := len(s); n > 0 && s[n-1].First+filch.Rank(s[n-1].Count) == filch.Rank(r) {
			s[n-1].Count++
		} else {
			s = append(s, launcher.Span{First: filch.Rank(r), Count: 1})
		}
	}
	return s
}

// FormatRanks writes spans as 0-3,7.
func FormatRanks(spans []launcher.Span) string {
	var b strings.Builder
	for i, s := range spans {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(s.First)))
		if s.Count > 1 {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(int(s.First) + int(s.Count) - 1))
		}
	}
	return b.String()
}
