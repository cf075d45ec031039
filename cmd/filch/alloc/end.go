package alloc

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// endWait bounds the one question to a batch system.
const endWait = 10 * time.Second

// FindEnd fills in the end of the allocation if the environment did not contain
// the end: Slurm sets a variable since version 23.02, before 23.02 squeue prints
// the end, and qstat prints the end of a PBS job. Otherwise the end stays
// unknown.
func (a *Allocation) FindEnd(ctx context.Context) {
	if !a.End.IsZero() || a.ID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	switch a.Kind {
	case Slurm:
		out, err := exec.CommandContext(ctx, "squeue", "-h", "-o", "%e", "-j", a.ID).Output()
		if err == nil {
			a.End = slurmTime(strings.TrimSpace(string(out)))
		}
	case PBS:
		out, err := exec.CommandContext(ctx, "qstat", "-f", a.ID).Output()
		if err == nil {
			a.End = pbsEnd(string(out), time.Now())
		}
	}
}

// slurmTime reads a time as squeue prints it; NONE and N/A are the zero time.
func slurmTime(s string) time.Time {
	t, _ := time.ParseInLocation("2006-01-02T15:04:05", s, time.Local)
	return t
}

// pbsEnd is the end computed from qstat -f: the walltime asked for minus the
// walltime used so far, from now.
func pbsEnd(text string, now time.Time) time.Time {
	var asked, used time.Duration
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case !ok:
		case name == "Resource_List.walltime":
			asked = clock(value)
		case name == "resources_used.walltime":
			used = clock(value)
		}
	}
	if asked == 0 {
		return time.Time{}
	}
	return now.Add(asked - used)
}

// clock reads H:M:S.
func clock(s string) time.Duration {
	var d time.Duration
	for part := range strings.SplitSeq(s, ":") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return 0
		}
		d = d*60 + time.Duration(n)*time.Second
	}
	return d
}
