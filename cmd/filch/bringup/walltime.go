package bringup

import (
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/spec"
)

// An allocation ends. A job with a walltime is started only if the walltime is
// over before the end; in the drain time before the end no job is started any
// more, so that all running jobs can still end.

// drainDefault is the time before the end of an allocation in which no job is
// started any more.
const drainDefault = 30 * time.Second

// checkEnd reads the options about the end of the nodes.
func (o *endOptions) checkEnd(command bool) (err error) {
	if o.given["ends"] {
		if o.end, err = readEnds(o.ends, time.Now()); err != nil {
			return err
		}
		if !o.end.After(time.Now()) {
			return ui.Misused(filch.Errorf(filch.Invalid, "--ends %s is over already", ui.Clean(o.ends)))
		}
	}
	if o.drain < 0 {
		return ui.Misused(filch.Errorf(filch.Invalid, "--drain %s: a time before the end of the nodes is not negative", filch.ShortTime(o.drain)))
	}
	if !o.given["signal"] {
		return nil
	}
	if o.warnSig, o.warnTime, err = spec.Warning(o.signal); err != nil {
		return ui.Misused(cli.OfOption("signal", err))
	}
	if !command {
		return ui.Misused(filch.Errorf(filch.Invalid, "--signal %s needs a command to send the signal to", ui.Clean(o.signal)).
			WithHint("filch up --signal %s -- COMMAND; or sbatch --signal=B:%s for the script itself", ui.Clean(o.signal), ui.Clean(o.signal)))
	}
	return nil
}

// checkHere refuses, on this machine alone, the options that would change
// nothing.
func (o *upOptions) checkHere() error {
	if o.nodes == 0 {
		o.nodes = nodesDefault
		if place.AllocationName(os.Getenv) != "" {
			o.nodes = 1
		}
	}
	if o.pool != "" {
		return ui.Misused(filch.Errorf(filch.Invalid, "--join needs an allocation or --hosts").WithHint("filch join %s joins this machine", o.pool))
	}
	if o.given["deadline"] {
		return ui.Misused(filch.Errorf(filch.Invalid, "--deadline needs an allocation or --hosts").
			WithHint("on one machine, filch up waits until every launcher is up or has failed"))
	}
	if idle := o.idleEnds(); o.end.IsZero() && len(idle) > 0 {
		return ui.Misused(filch.Errorf(filch.Invalid, "cannot use %s: the end of this machine is not known", strings.Join(idle, " and ")).
			WithHint("give the end with --ends: +90m, 17:30 or 2026-01-31T17:30"))
	}
	return nil
}

// idleEnds are the given options that mean nothing while the end of the nodes is
// unknown.
func (o *endOptions) idleEnds() (idle []string) {
	for _, name := range []string{"drain", "learn", "signal"} {
		if o.given[name] {
			idle = append(idle, "--"+name)
		}
	}
	return idle
}

// sayIdle names the idle options of an allocation without an end, and is no
// error: the same script may run in other allocations.
func (o *endOptions) sayIdle() {
	if idle := o.idleEnds(); len(idle) > 0 {
		ui.Say("ignoring " + strings.Join(idle, " and ") + ": the batch system does not say when the nodes are taken away; use --ends")
	}
}

// ending is the end of the nodes for the launchers.
func (o *endOptions) ending(end time.Time) ending {
	e := ending{Drain: o.drain.Milliseconds(), Blind: !o.learn}
	if !end.IsZero() {
		e.Ends = end.Unix()
	}
	return e
}

// watchEnd acts near the end of the nodes: watchEnd prints that the nodes lend
// nothing more, and sends the command its warning. watchEnd returns at once.
func (o *endOptions) watchEnd(instance string, end time.Time, warn func(syscall.Signal)) {
	if end.IsZero() {
		return
	}
	end = time.Unix(end.Unix(), 0) // as the launchers know it
	after := func(before time.Duration, act func()) {
		time.AfterFunc(max(time.Until(end)-before, 0), act)
	}
	if o.drain > 0 {
		after(o.drain, func() {
			ui.Say("the nodes of " + instance + " are taken away in " + filch.ShortTime(o.drain) + ": from now on, only jobs and tasks that are known to finish are started")
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
