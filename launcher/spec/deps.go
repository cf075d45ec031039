package spec

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch/mtc/record"
)

// Deps is a --dep as written, before a launcher is asked for the jobs.
type Deps struct {
	List  []Dep
	Any   bool // one of List suffices
	Alone bool // singleton
}

// Dep is the event of some jobs or tasks. With Corr, task i waits for task i.
type Dep struct {
	When  record.When
	Corr  bool
	Word  string // jobs and tasks, as the commands of filch name them
	Delay time.Duration
}

// corrWord is the word of --dep for arrays whose tasks wait for each other one by one.
const corrWord = "aftercorr"

// aloneWord is the word of --dep for jobs of one name that run one after the other.
const aloneWord = "singleton"

// ReadDeps reads a --dep: afterok:7:8,afterany:9, and with ? in place of the commas for
// any of them.
func ReadDeps(text string) (d Deps, err error) {
	bad := invalid("%s is not a list like afterok:7:8,afterany:9", clip(text)).
		WithHint("the words are afterok, afterany, afternotok, after, aftercorr and singleton; behind a word and : are jobs 7, tasks 7.5, ranges 7-9, or last")
	join := ","
	if d.Any = strings.Contains(text, "?"); d.Any {
		join = "?"
		if strings.Contains(text, ",") {
			return Deps{}, invalid("%s has both , and ?, and a list has only one of them", clip(text)).WithHint("with , all conditions must be met; with ? one suffices")
		}
	}
	if text == "" {
		return Deps{}, bad
	}
	at, known := Dep{}, false // the last word of a condition
	for part := range strings.SplitSeq(text, join) {
		word, rest, more := strings.Cut(part, ":")
		when, corr, ok := event(word)
		switch {
		case word == aloneWord && !more && !d.Any:
			d.Alone, known = true, false
			continue
		case ok && more:
			at, known = Dep{When: when, Corr: corr}, true
		case known && !ok && !d.Any: // more jobs of the last word, as in afterok:7,8
			rest = part
		default:
			return Deps{}, bad
		}
		joined := !ok // 7.5,8 are two tasks of a job
		for ids := range strings.SplitSeq(rest, ":") {
			if err := d.add(at, ids, joined); err != nil {
				return Deps{}, bad
			}
			joined = false
		}
	}
	return d, nil
}

// add adds the jobs of a word to the list.
func (d *Deps) add(at Dep, ids string, joined bool) error {
	word, minutes, delayed := strings.Cut(ids, "+")
	if delayed {
		n, err := strconv.ParseUint(minutes, 10, 31)
		if err != nil || at.When != record.WhenStarted {
			return invalid("no delay")
		}
		at.Delay = time.Duration(n) * time.Minute
	}
	if word == "" || strings.ContainsAny(word, " +") || !nameOfJob(word, joined) {
		return invalid("no job")
	}
	if n := len(d.List); joined && n > 0 && d.List[n-1].Delay == 0 && !delayed {
		d.List[n-1].Word += "," + word
		return nil
	}
	at.Word = word
	d.List = append(d.List, at)
	return nil
}

// nameOfJob reports whether a word begins with a job: a number, or last. After a comma it
// may be the name of a task.
func nameOfJob(word string, joined bool) bool {
	job, _, _ := strings.Cut(word, ".")
	low, _, _ := strings.Cut(job, "-")
	return joined || job == "last" || digits(low) && strings.Trim(low, "0") != ""
}

func event(word string) (w record.When, corr, ok bool) {
	if word == corrWord {
		return record.WhenOK, true, true
	}
	for w = range record.WhenStarted + 1 {
		if w.String() == word {
			return w, false, true
		}
	}
	return 0, false, false
}

// readSlurmDeps reads a --dependency of Slurm: a job alone means afterany, and there are no
// burst buffers.
func readSlurmDeps(text string) (Deps, error) {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '?' })
	at := 0
	for _, p := range parts {
		word, rest, more := strings.Cut(p, ":")
		fresh := p
		switch {
		case digits(word) && at == 0:
			fresh = record.WhenAny.String() + ":" + p
		case word == "afterburstbuffer" && more:
			fresh = record.WhenAny.String() + ":" + rest
		}
		fresh = strings.ReplaceAll(fresh, "_", ".") // a job of an array
		k := at + strings.Index(text[at:], p)
		text = text[:k] + fresh + text[k+len(p):]
		at = k + len(fresh)
	}
	return ReadDeps(text)
}

// Priority reads a --priority: lower numbers go first.
func Priority(v string) (int32, error) {
	n, err := strconv.ParseInt(v, 10, 16)
	if err != nil {
		return 0, invalid("%s is not a number from -32768 to 32767", clip(v))
	}
	return int32(n), nil
}

// setPriority sets Slurm's --priority, where higher numbers go first.
func setPriority(r *Run, v string) error {
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case strings.EqualFold(v, "TOP"):
		r.Request.Class = classMin
	case err != nil || n < 0:
		return invalid("Invalid --priority specification")
	case n == 0: // Slurm holds such a job
		r.Client.Hold = true
	default:
		r.Request.Class = int32(max(-n, classMin))
	}
	return nil
}

// setNice sets Slurm's --nice, where higher numbers go later.
func setNice(r *Run, v string) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < -niceMax || n > niceMax {
		return invalid("Invalid --nice value")
	}
	r.Request.Class = int32(min(max(n, classMin), classMax))
	return nil
}

// The bounds of the class of a ticket, and of Slurm's --nice.
const (
	classMin = -1 << 15
	classMax = 1<<15 - 1
	niceMax  = 2147483645
)

// ReadBegin reads a --begin as a unix time in ns: a time from now (90s, 1h30m), a time of
// day that comes next, a day with or without a time, or now+1hour as in Slurm.
func ReadBegin(text string, now time.Time) (int64, error) {
	at, err := readBegin(strings.ToLower(text), now)
	if err != nil {
		return 0, invalid("%s is not a time to begin", clip(text)).WithHint("90s, 1h30m, now+1hour, 16:00, tomorrow, 2026-12-01T10:00")
	}
	return max(at.UnixNano(), 0), nil
}

func readBegin(s string, now time.Time) (time.Time, error) {
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch s {
	case "now":
		return now, nil
	case "today":
		return day, nil
	case "tomorrow":
		return day.AddDate(0, 0, 1), nil
	}
	if rest, ok := strings.CutPrefix(s, "now"); ok {
		d, err := afterNow(strings.TrimSpace(rest))
		return now.Add(d), err
	}
	if d, err := Time(s); err == nil && strings.ContainsAny(s, "smhd") && !strings.ContainsAny(s, ":-") {
		return now.Add(d), nil
	}
	if hours, ok := map[string]int{"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}[s]; ok {
		return next(day, time.Duration(hours)*time.Hour, now), nil
	}
	for _, form := range []string{"15:04:05", "15:04", "3:04:05pm", "3:04pm", "3pm"} {
		if t, err := time.Parse(form, s); err == nil {
			h, m, sec := t.Clock()
			return next(day, time.Duration(h)*time.Hour+time.Duration(m)*time.Minute+time.Duration(sec)*time.Second, now), nil
		}
	}
	date, clock, _ := strings.Cut(s, "t")
	if i := strings.LastIndexByte(s, '-'); strings.Contains(s, "/") && i > 0 { // 12/31/26-16:00
		date, clock = s[:i], s[i+1:]
	}
	for _, form := range []string{"2006-01-02", "01/02/06", "010206", "01/02"} {
		t, err := time.ParseInLocation(form, date, now.Location())
		if err != nil {
			continue
		}
		if clock != "" {
			c, err := time.Parse("15:04:05", clock)
			if err != nil {
				c, err = time.Parse("15:04", clock)
			}
			if err != nil {
				return t, err
			}
			h, m, sec := c.Clock()
			t = time.Date(t.Year(), t.Month(), t.Day(), h, m, sec, 0, now.Location())
		}
		if t.Year() == 0 {
			if t = t.AddDate(now.Year(), 0, 0); t.Before(now) {
				t = t.AddDate(1, 0, 0)
			}
		}
		return t, nil
	}
	return now, invalid("no form fits")
}

// next is the next moment at a time of day.
func next(day time.Time, since time.Duration, now time.Time) time.Time {
	at := time.Date(day.Year(), day.Month(), day.Day(), 0, 0, int(since/time.Second), 0, day.Location())
	if at.Before(now) {
		at = time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, int(since/time.Second), 0, day.Location())
	}
	return at
}

// afterNow reads what may stand behind now: +90, +1hour, +1h30m.
func afterNow(s string) (time.Duration, error) {
	s, plus := strings.CutPrefix(s, "+")
	s = strings.TrimSpace(s)
	if !plus {
		return 0, invalid("no +")
	}
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseUint(number, 10, 31)
	units := []string{"second", "minute", "hour", "day", "week"}
	of := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}
	unit := s[len(number):]
	if err == nil && unit == "" {
		return time.Duration(n) * time.Second, nil
	}
	if i := slices.Index(units, strings.TrimSuffix(unit, "s")); err == nil && i >= 0 {
		return time.Duration(n) * of[i], nil
	}
	return Time(s)
}
