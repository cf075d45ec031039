package output

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// Side is the process that opens the file of a pattern.
type Side uint8

// The sides. The node opens a pattern that names a rank or a node.
const (
	SideClient Side = iota
	SidePerNode
	SidePerRank
)

// padMax bounds the width of a padded number (srun(1), "filename pattern").
const padMax = 10

// Place holds the values of a pattern's conversions.
type Place struct {
	Job   filch.JobID
	Array filch.JobID // the first job of Job's array; 0: Job
	Step  int32       // of the job
	Name  string      // of the job
	User  string
	Rank  filch.Rank
	Index int32 // of the node within the job
	Node  filch.NodeName
	Task  string // the number of a task; "" for a rank, with %a left unchanged
}

// SideOf returns where the file of pattern is opened: %t makes a file per rank, %n and
// %N a file per node.
func SideOf(pattern string) Side {
	side := SideClient
	eachConversion(pattern, func(c byte, _ int, _ string) {
		switch {
		case c == 't':
			side = SidePerRank
		case (c == 'n' || c == 'N') && side == SideClient:
			side = SidePerNode
		}
	})
	return side
}

// PerTask reports whether a pattern names another file for each task of a job. In files of
// gangs, %t is the rank.
func PerTask(pattern string, gangs bool) bool {
	found := false
	eachConversion(pattern, func(c byte, _ int, _ string) { found = found || c == 't' && !gangs || c == 'a' })
	return found
}

// PerStep reports whether a pattern names the step.
func PerStep(pattern string) bool {
	found := false
	eachConversion(pattern, func(c byte, _ int, _ string) { found = found || c == 's' || c == 'J' })
	return found
}

// Expand replaces the conversions of srun's file name patterns: %t rank, %n index of
// the node, %N its short name, %j job, %A the job's array,
// %a task, %s step, %J job and step, %u user, %x name of the job, %% a percent
// sign. A number between % and the letter pads numbers with zeros and is ignored
// otherwise.
//
// The name of a job stays one part of a path: a slash in the name becomes an
// underscore, as do the dots of a name of dots only. srun would leave the folder; the
// user who typed the name meant no folder, and another user's workflow must not choose
// a folder.
//
// A backslash anywhere switches all conversions off and is removed itself. Other text
// stays unchanged.
func Expand(pattern string, p Place) string {
	if strings.Contains(pattern, `\`) {
		return plain(pattern)
	}
	var b strings.Builder
	eachConversion(pattern, func(c byte, pad int, text string) {
		switch c {
		case 0:
			b.WriteString(text)
		case '%':
			b.WriteByte('%')
		case 't':
			number(&b, int64(p.Rank), pad)
		case 'n':
			number(&b, int64(p.Index), pad)
		case 'j':
			number(&b, int64(p.Job), pad)
		case 'A':
			number(&b, int64(cmp.Or(p.Array, p.Job)), pad)
		case 'a':
			if p.Task == "" {
				b.WriteString(text)
				return
			}
			padded(&b, p.Task, pad)
		case 's':
			number(&b, int64(p.Step), pad)
		case 'J':
			number(&b, int64(p.Job), pad)
			b.WriteString("." + strconv.Itoa(int(p.Step)))
		case 'N':
			short, _, _ := strings.Cut(string(p.Node), ".")
			b.WriteString(short)
		case 'u':
			b.WriteString(p.User)
		case 'x':
			b.WriteString(fileName(p.Name))
		}
	})
	return b.String()
}

// Literal changes values so that [Expand] leaves them unchanged in the place of replacement
// strings of pattern. ok is false if nothing protects a value: a backslash beside a
// conversion.
func Literal(pattern string, values []string) (safe []string, ok bool) {
	old, own := "%", "%%"
	switch joined := strings.Join(values, ""); {
	case strings.Contains(pattern, `\`): // the user switched conversions off
		old, own = `\`, `\\`
	case strings.Contains(joined, `\`) && strings.Contains(pattern, "%"):
		return nil, false
	case strings.Contains(joined, `\`):
		old, own = `\`, `\\`
	}
	for _, v := range values {
		safe = append(safe, strings.ReplaceAll(v, old, own))
	}
	return safe, true
}

// WithName puts the name of a job into pattern, in place of %x: a name with replacement
// strings is another for each task.
func WithName(pattern, name string) string {
	if !strings.Contains(pattern, "%x") {
		return pattern
	}
	var b strings.Builder
	eachConversion(pattern, func(c byte, _ int, text string) {
		if c == 'x' {
			text = strings.ReplaceAll(fileName(name), "%", "%%")
		}
		b.WriteString(text)
	})
	if b.Len() == 0 { // a backslash switched conversions off
		return pattern
	}
	return b.String()
}

// fileName makes one part of a path from a job's name.
func fileName(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.Repeat("_", len(name))
	}
	return strings.ReplaceAll(name, "/", "_")
}

// plain removes single backslashes and keeps one backslash of two.
func plain(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		} else if pattern[i] == '\\' {
			break
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// eachConversion calls fn for each conversion of pattern, with the conversion's text,
// and, with c zero, for the text between conversions.
func eachConversion(pattern string, fn func(c byte, pad int, text string)) {
	if strings.Contains(pattern, `\`) {
		return
	}
	for pattern != "" {
		at := strings.IndexByte(pattern, '%')
		if at < 0 {
			fn(0, 0, pattern)
			return
		}
		if at > 0 {
			fn(0, 0, pattern[:at])
		}
		end := at + 1
		for end < len(pattern) && pattern[end] >= '0' && pattern[end] <= '9' {
			end++
		}
		if end == len(pattern) || !strings.ContainsRune("%tnjAasJNux", rune(pattern[end])) {
			end = min(end, len(pattern)-1)
			fn(0, 0, pattern[at:end+1])
		} else {
			pad, _ := strconv.Atoi(pattern[at+1 : end])
			fn(pattern[end], min(pad, padMax), pattern[at:end+1])
		}
		pattern = pattern[end+1:]
	}
}

// number writes n, padded with zeros to pad digits.
func number(b *strings.Builder, n int64, pad int) { padded(b, strconv.FormatInt(n, 10), pad) }

func padded(b *strings.Builder, text string, pad int) {
	for i := len(text); i < pad; i++ {
		b.WriteByte('0')
	}
	b.WriteString(text)
}
