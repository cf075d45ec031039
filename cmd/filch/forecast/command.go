package forecast

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// answer is the JSON of filch forecast.
type answer struct {
	ID      filch.JobID `json:"id"`
	Name    string      `json:"name"`
	Kind    string      `json:"kind"`
	State   string      `json:"state"`
	Start   *window     `json:"start,omitempty"` // absent: the job has started, or ended
	End     *window     `json:"end,omitempty"`   // absent: the job has ended
	Ahead   int         `json:"ahead"`           // older jobs that wait
	Basis   []string    `json:"basis"`           // the known times behind the forecast, in words
	Unknown []string    `json:"unknown"`         // reasons of unknown times, in words
	LeftOut []string    `json:"left_out"`        // further facts without effect, in words
}

// window is a time with its spread, in seconds from now. Null is not known.
type window struct {
	Early  *float64 `json:"early"`
	Likely *float64 `json:"likely"`
	Late   *float64 `json:"late"`
	Latest *float64 `json:"latest"` // by the time limits
}

// Command is filch forecast.
func Command(g *cli.Global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "forecast JOB",
		GroupID: "jobs",
		Short:   "say when a job starts and ends, with the spread",
		Long: `Says when a job will start and end: the likely time, and between which times nine of ten
such jobs would; with time limits, also the latest time.

The forecast plays the queue forward, with the jobs in the order of their submission: the slots
of the nodes, the jobs that have slots, those that wait before this job, --dep and --begin. A
run waits for running tasks of older jobs, and for one more on each node at most, since runs
and tasks take turns. The times of tasks are those of the ended tasks of the job, and before
the first end those of earlier jobs of the name; the times of runs are those of earlier runs of
the same name and number of ranks. A time that depends on a job of unknown length is not known,
and filch says which job.

Memory, GPUs, priorities, failures, and jobs and nodes that come later do not count.`,
		Example: "  filch forecast last\n  filch forecast 7 --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			conn, ids, err := g.Jobs(args)
			if err != nil {
				return err
			}
			defer conn.Close()
			if len(ids) > 1 {
				return ui.Misused(cli.TooMany(args[0], len(ids)))
			}
			k, target, err := collect(conn, ids[0])
			if err != nil {
				return err
			}
			var f *answer
			if target < 0 {
				f = &answer{Basis: []string{}, Unknown: []string{}, LeftOut: []string{}}
				var i launcher.JobInfo
				if err := cli.Ask(conn, cli.QueryWait, &i, wire.VerbInfo, ids[0].String()); err != nil {
					return err
				}
				f.ID, f.Name, f.Kind, f.State = i.ID, i.Name, i.Kind, i.State
			} else {
				f = k.forecast(target)
			}
			if asJSON {
				return ui.PrintJSON(f)
			}
			f.print(time.Now())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// forecast makes the forecast of a live job.
func (k *collector) forecast(target int) *answer {
	i, j := &k.jobs[target], &k.queue.jobs[target]
	f := &answer{ID: i.ID, Name: i.Name, Kind: i.Kind, State: i.State, Basis: []string{}, Unknown: []string{}, LeftOut: append([]string{}, k.notes...)}
	start, end := k.queue.forecast(target, uint64(i.ID))
	if len(j.running) == 0 && i.Tasks.Total == i.Tasks.Ready+i.Tasks.Waiting {
		f.Start = start.json()
		for n := range target {
			if len(k.queue.jobs[n].running) == 0 {
				f.Ahead++
			}
		}
	}
	f.End = end.json()
	f.Basis = append(f.Basis, k.basis(i, j))
	if math.IsInf(end.likely, 1) {
		f.Unknown = append(f.Unknown, k.why(target)...)
	} else if math.IsInf(end.late, 1) {
		f.Unknown = append(f.Unknown, "in some rounds of the forecast the job does not end")
	}
	if i.Open {
		f.LeftOut = append(f.LeftOut, "the job is open: tasks that are added later")
	}
	return f
}

// basis says where the time of a job comes from.
func (k *collector) basis(i *launcher.JobInfo, j *job) string {
	what, kin := "runs", "none of its name with as many ranks has ended well"
	if cli.IsTasks(i) {
		what, kin = "tasks", "none of its name has ended"
	}
	if !j.length.known() {
		return fmt.Sprintf("how long %s of this job take is not known: %s", what, kin)
	}
	mean, deviation := j.length.moments()
	text := fmt.Sprintf("%s that ended well: %d, %s each", what, j.length.count(), short(mean))
	if j.length.count() > 1 {
		text += ", give or take " + short(deviation)
	}
	if cli.IsTasks(i) && len(j.length.sample) == 0 {
		text = fmt.Sprintf("tasks of earlier jobs of this name: most took less than %s", short(mean))
	}
	return text
}

// maxReasons bounds the named jobs.
const maxReasons = 8

// why says in words why the end of a job is not known.
func (k *collector) why(target int) (list []string) {
	if j := &k.queue.jobs[target]; j.never {
		if by := k.jobs[target].Held; by != "" {
			return []string{fmt.Sprintf("%s holds the job, until filch release %d", by, j.id)}
		}
		return []string{"the condition of the job, --dep " + k.jobs[target].Dep + ", is not understood"}
	}
	if open := k.queue.jobs[target].open(); open > 0 {
		list = append(list, fmt.Sprintf("of %s without an end no task of the same kind has ended yet", filch.Plural(open, "task")))
	}
	for _, n := range k.unknown(target) {
		i, j := &k.jobs[n], &k.queue.jobs[n]
		if len(list) == maxReasons {
			return append(list, "and further jobs of unknown length")
		}
		text := fmt.Sprintf("job %d (%s %s)", i.ID, i.Kind, i.Name)
		if n == target {
			text = "this job"
		} else if len(j.running) > 0 {
			text += " has slots, and"
		} else {
			text += " comes first, and"
		}
		text += " takes an unknown time: "
		if cli.IsTasks(i) {
			text += "none of its tasks has ended"
		} else {
			text += "no such run has ended before"
		}
		switch {
		case j.some:
			text += ", and not all of its tasks have a time limit"
		case j.length.limit == 0:
			text += ", and it has no time limit"
		}
		list = append(list, text)
	}
	if len(list) == 0 {
		list = append(list, fmt.Sprintf("the nodes that are up have no room for the job, or for a job before: filch explain %d says more", k.jobs[target].ID))
	}
	return list
}

func (s span) json() *window {
	return &window{finite(s.early), finite(s.likely), finite(s.late), finite(s.latest)}
}

// finite is a time in milliseconds, nil for an infinite one.
func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	v = math.Round(v*1000) / 1000
	return &v
}

// short is a number of seconds for people.
func short(seconds float64) string {
	return filch.ShortTime(time.Duration(min(seconds, filch.TimeMax.Seconds()) * float64(time.Second)))
}

// print prints the forecast for people.
func (f *answer) print(now time.Time) {
	ui.Printf("job %d (%s %s) is %s\n", f.ID, f.Kind, ui.Clean(f.Name), f.State)
	if f.End == nil {
		ui.Printf("it has ended: filch info %d says more\n", f.ID)
		return
	}
	if f.Start != nil {
		ui.Printf("%s\n", f.Start.text("starts", now))
	}
	ui.Printf("%s\n", f.End.text("ends", now))
	if f.Ahead > 0 {
		ui.Printf("waits behind %s\n", filch.Plural(f.Ahead, "older job"))
	}
	for _, part := range []struct {
		lead  string
		lines []string
	}{{"not known", f.Unknown}, {"from", f.Basis}, {"without", f.LeftOut}} {
		for _, line := range part.lines {
			ui.Printf("%s: %s\n", part.lead, ui.Clean(line))
		}
	}
}

// text says a time with its spread.
func (s *window) text(verb string, now time.Time) string {
	var b strings.Builder
	b.WriteString(verb)
	switch {
	case s.Likely == nil:
		b.WriteString(" at a time that is not known")
	case *s.Likely == 0:
		b.WriteString(" now")
	default:
		at := now.Add(time.Duration(*s.Likely * float64(time.Second)))
		fmt.Fprintf(&b, " in %s (at %s), ", short(*s.Likely), ui.Clock(at))
		if s.Late == nil {
			fmt.Fprintf(&b, "in %s at the earliest", short(*s.Early))
		} else {
			fmt.Fprintf(&b, "between %s and %s", short(*s.Early), short(*s.Late))
		}
	}
	if s.Latest != nil && *s.Latest > 0 {
		fmt.Fprintf(&b, "; in %s at the latest, by the time limits", short(*s.Latest))
	}
	return b.String()
}
