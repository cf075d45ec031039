package spec

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch/launcher"
)

// limitNames are the names of --propagate, with Linux's numbers of the limits.
var limitNames = map[string]int32{
	"CPU": 0, "FSIZE": 1, "DATA": 2, "STACK": 3, "CORE": 4, "RSS": 5, "NPROC": 6, "NOFILE": 7, "MEMLOCK": 8, "AS": 9,
}

// Limits is the value of --propagate: the soft limits that go to the ranks. The zero value is
// all limits.
type Limits struct {
	some bool
	only []int32
}

// setPropagate reads ALL, NONE, or names of limits.
func setPropagate(r *Run, v string) error {
	l := &r.Client.Limits
	if *l = (Limits{}); v == "-" || strings.EqualFold(v, "ALL") {
		return nil
	}
	l.some = true
	for name := range strings.SplitSeq(strings.ToUpper(v), ",") {
		number, known := limitNames[strings.TrimPrefix(name, "RLIMIT_")]
		switch {
		case name == "NONE" && v != "" && !strings.Contains(v, ","):
		case !known:
			return invalid("%s is no limit that can be propagated", clip(name)).WithHint("ALL, NONE, or of AS, CORE, CPU, DATA, FSIZE, MEMLOCK, NOFILE, NPROC, RSS, STACK")
		default:
			l.only = append(l.only, number)
		}
	}
	return nil
}

// Of returns the limits that go to the ranks, out of all limits of the submitter.
func (l Limits) Of(all []launcher.Rlimit) []launcher.Rlimit {
	if !l.some {
		return all
	}
	return slices.DeleteFunc(all, func(r launcher.Rlimit) bool { return !slices.Contains(l.only, r.Resource) })
}

// The times for the shell of --get-user-env.
const (
	userEnvWait = 8 * time.Second
	userEnvMost = 5 * time.Minute // a job waits as long
)

// setUserEnv reads --get-user-env=[SECONDS][L|S]: how long the shell of a login may take, and
// with S a shell without the files of a login.
func setUserEnv(r *Run, v string) error {
	b := &r.Client.Batch
	b.UserEnv, b.UserEnvWait, b.UserEnvPlain = true, userEnvWait, false
	if v == "-" {
		return nil
	}
	secs := strings.TrimRight(strings.ToUpper(v), "LS")
	mode := strings.ToUpper(v)[len(secs):]
	if mode != "" && mode != "L" && mode != "S" {
		return invalid("%s is not [SECONDS][L|S]", clip(v))
	}
	b.UserEnvPlain = mode == "S"
	if secs == "" {
		return nil
	}
	n, err := strconv.ParseUint(secs, 10, 16)
	wait := time.Duration(n) * time.Second
	if err != nil || n == 0 || wait > userEnvMost {
		return invalid("%s is not [SECONDS][L|S], with 1 to %d seconds", clip(v), userEnvMost/time.Second)
	}
	b.UserEnvWait = wait
	return nil
}
