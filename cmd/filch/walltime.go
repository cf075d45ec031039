package main

import (
	"encoding/json"
	"os"
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

// watchEnd acts on the end of the allocation as it comes near: it says that the
// nodes lend nothing more, and sends the command its warning. It returns at once.
func (n *nest) watchEnd(warn func(syscall.Signal)) {
	if n.given.End.IsZero() {
		return
	}
	after := func(before time.Duration, act func()) {
		time.AfterFunc(max(time.Until(n.given.End)-before, 0), act)
	}
	if n.drain > 0 {
		after(n.drain, func() {
			say("the nodes of " + n.instance + " are taken away in " + shortTime(n.drain) + ": nothing more is started but what is known to finish")
		})
	}
	if n.warnSig > 0 && warn != nil {
		after(n.warnTime, func() { warn(syscall.Signal(n.warnSig)) })
	}
}

// warnCommand signals the command of filch up.
func warnCommand(p *os.Process) func(syscall.Signal) {
	return func(sig syscall.Signal) { _ = p.Signal(sig) }
}
