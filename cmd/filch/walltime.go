package main

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/spec"
)

// An allocation ends. A job that says how long it may take is started only
// where that is before the end; shortly before it nothing is started any more,
// so that what runs is what can still end.

// drainDefault is how long before the end of an allocation nothing is started
// any more.
const drainDefault = 30 * time.Second

// endOf is when the node of a launcher is taken away; zero: not known.
func endOf(dir place.Dir) time.Time {
	b, err := place.ReadPrivate(dir.NodeFile())
	var n struct {
		Ends int64 `json:"ends"`
	}
	if err != nil || json.Unmarshal(b, &n) != nil || n.Ends == 0 {
		return time.Time{}
	}
	return time.Unix(n.Ends, 0)
}

// fitWalltime refuses a run that cannot finish before the end of the allocation,
// bounds how long one may wait, and gives one with a warning signal but without
// a limit the rest of the time.
func fitWalltime(r *spec.Run, dir place.Dir) error {
	p := &r.Request.Policy
	if p.TimeLimit == 0 && p.WarnSig == 0 {
		return nil
	}
	end := endOf(dir)
	if end.IsZero() {
		if p.TimeLimit == 0 {
			return filch.Errorf(filch.Invalid, "--signal needs a time limit").WithHint("add -t MINUTES")
		}
		return nil
	}
	left := time.Until(end)
	if p.TimeLimit == 0 {
		p.TimeLimit = max(left.Truncate(time.Second), time.Second)
		return nil
	}
	if p.TimeLimit > left {
		return filch.Errorf(filch.Busy, "cannot finish: -t %s is asked for, and the nodes of %s are taken away in %s", spec.FormatTime(p.TimeLimit),
			dir.Instance, shortTime(max(left, 0).Round(time.Second))).WithHint("nothing was started; ask for less, or in a longer allocation")
	}
	if wait := left - p.TimeLimit; r.Request.Patient == 0 || wait < r.Request.Patient {
		r.Request.Patient = max(wait, time.Millisecond)
	}
	return nil
}

// checkEnd reads what is said of the end of the nodes.
func (o *endOptions) checkEnd(command bool) (err error) {
	if o.given["ends"] {
		if o.end, err = readEnds(o.ends, time.Now()); err != nil {
			return err
		}
		if !o.end.After(time.Now()) {
			return misuse{filch.Errorf(filch.Invalid, "--ends %s is over already", clean(o.ends))}
		}
	}
	if o.drain < 0 {
		return misuse{filch.Errorf(filch.Invalid, "--drain %v: a time before the end of the nodes is not negative", o.drain)}
	}
	if !o.given["signal"] {
		return nil
	}
	if o.warnSig, o.warnTime, err = spec.Warning(o.signal); err != nil {
		return misuse{err}
	}
	if !command {
		return misuse{filch.Errorf(filch.Invalid, "--signal %s: there is no command to send it to", clean(o.signal)).
			WithHint("filch up --signal %s -- COMMAND; or sbatch --signal=B:%s for the script itself", clean(o.signal), clean(o.signal))}
	}
	return nil
}

// checkHere refuses, on this machine alone, what would change nothing.
func (o *upOptions) checkHere() error {
	if o.nodes == 0 {
		o.nodes = nodesDefault
		if place.AllocationName(os.Getenv) != "" {
			o.nodes = 1
		}
	}
	if o.pool != "" {
		return misuse{filch.Errorf(filch.Invalid, "--join is for the nodes of an allocation or of --hosts").WithHint("filch join %s joins this machine", o.pool)}
	}
	if o.given["deadline"] {
		return misuse{filch.Errorf(filch.Invalid, "--deadline is for the nodes of an allocation or of --hosts").
			WithHint("launchers of this machine are waited for until they are up or have failed")}
	}
	if idle := o.idleEnds(); o.end.IsZero() && len(idle) > 0 {
		return misuse{filch.Errorf(filch.Invalid, "%s would change nothing: nobody says when this machine is taken away", strings.Join(idle, " and ")).
			WithHint("--ends says it: +MINUTES, 17:30 or 2026-01-31T17:30")}
	}
	return nil
}

// idleEnds are the options that were given and mean nothing where the end of the
// nodes is not known.
func (o *endOptions) idleEnds() (idle []string) {
	for _, name := range []string{"drain", "learn", "signal"} {
		if o.given[name] {
			idle = append(idle, "--"+name)
		}
	}
	return idle
}

// sayIdle says it of an allocation without an end: a script may run in others.
func (o *endOptions) sayIdle() {
	if idle := o.idleEnds(); len(idle) > 0 {
		say(strings.Join(idle, " and ") + " changes nothing: the batch system does not say when the nodes are taken away; --ends does")
	}
}

// ending is what launchers are told of the end of their nodes.
func (o *endOptions) ending(end time.Time) ending {
	e := ending{Drain: o.drain.Milliseconds(), Blind: !o.learn}
	if !end.IsZero() {
		e.Ends = end.Unix()
	}
	return e
}

// watchEnd acts on the end of the nodes as it comes near: it says that they lend
// nothing more, and sends the command its warning. It returns at once.
func (o *endOptions) watchEnd(instance string, end time.Time, warn func(syscall.Signal)) {
	if end.IsZero() {
		return
	}
	after := func(before time.Duration, act func()) {
		time.AfterFunc(max(time.Until(end)-before, 0), act)
	}
	if o.drain > 0 {
		after(o.drain, func() {
			say("the nodes of " + instance + " are taken away in " + shortTime(o.drain) + ": nothing more is started but what is known to finish")
		})
	}
	if o.warnSig > 0 && warn != nil {
		after(o.warnTime, func() { warn(syscall.Signal(o.warnSig)) })
	}
}

// warnCommand signals the command of filch up.
func warnCommand(p *os.Process) func(syscall.Signal) {
	return func(sig syscall.Signal) { _ = p.Signal(sig) }
}
