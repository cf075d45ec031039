package shims

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
)

// srunMain is srun: `filch run` with srun's defaults, inputs, words and codes.
func srunMain(args []string) int {
	faultOfVariable()
	var ends srunEnds
	runclient.Dialect.Early, runclient.Dialect.Report, runclient.Dialect.Code = ends.early, ends.report, srunCode
	r, err := spec.ParseSrun(args, os.Getenv)
	switch {
	case err != nil:
		return handOn(err.Error())
	case r.Client.Foreign == "--version" || r.Client.Foreign == "--help" || r.Client.Foreign == "--usage":
		return handOn("")
	case r.Client.Foreign != "":
		return handOn("filch does not do " + r.Client.Foreign + instead(r.Client.Instead))
	}
	return shimRun(r)
}

// faultOfVariable makes SLURM_EXIT_ERROR the exit code of errors.
func faultOfVariable() {
	if n, err := strconv.Atoi(os.Getenv("SLURM_EXIT_ERROR")); err == nil && n >= 0 && n < 256 {
		ui.Self.Fault = n
	}
}

// instead is the end of a line about an option that filch does not do.
func instead(use string) string {
	if use == "" {
		return ""
	}
	return " (" + use + ")"
}

// shimRun runs a command line that a shim has parsed.
func shimRun(r *spec.Run) int {
	around, err := cli.Environment()
	if err != nil {
		return ui.Fail(err)
	}
	warnings, err := r.Finish(around)
	if err != nil {
		return handOn(err.Error())
	}
	if !r.Client.Quiet {
		for _, w := range append(warnings, r.Client.Said...) {
			ui.Warn(w)
		}
	}
	runclient.Dialect.Absent = func(err error) int { return handOn(err.Error()) }
	return runclient.Launch(r, around)
}

// srunCode is srun's exit code: the highest code of the ranks, found by the
// launcher, and errno for a program that cannot be exec'ed.
func srunCode(kind launcher.CauseKind, code int32) int {
	switch {
	case kind == launcher.CauseNotFound:
		return int(unix.ENOENT)
	case kind == launcher.CauseNotExec:
		return int(unix.EACCES)
	case kind == launcher.CauseInterrupt, kind == launcher.CauseCancel, kind == launcher.CauseClientGone:
		return int(code)
	case code == filch.ExitOurs:
		return ui.Self.Fault
	}
	return int(code)
}

// report prints the bad ends that are not printed yet, and the cause, in srun's words.
func (n *srunEnds) report(s *runclient.Session, e launcher.Ended) {
	n.take(e.Ranks)
	n.print(s)
	switch e.Cause.Kind {
	case launcher.CauseNotFound, launcher.CauseNotExec:
		what := unix.ENOENT
		if e.Cause.Kind == launcher.CauseNotExec {
			what = unix.EACCES
		}
		program := ""
		if len(s.Spec.Argv) > 0 {
			program = s.Spec.Argv[0]
		}
		ui.Say(fmt.Sprintf("error: %s: execve(): %s: %s", e.Cause.Node, program, capital(what.Error())))
	case launcher.CauseTimeLimit:
		ui.Say(fmt.Sprintf("error: STEP %d CANCELLED DUE TO TIME LIMIT", e.Job))
	case launcher.CauseExit, launcher.CauseSignal, launcher.CauseOOM, launcher.CauseNone:
	default:
		ui.Say("error: " + e.Cause.Text)
	}
}

// srunEnd is the text of a rank's end as srun prints it.
func srunEnd(r launcher.RankEnd) string {
	switch r.Kind {
	case launcher.CauseSignal:
		text := signalText(unix.Signal(r.Code))
		if r.Core {
			text += " (core dumped)"
		}
		return text
	case launcher.CauseOOM:
		return "Out Of Memory"
	case launcher.CauseExit, launcher.CauseAbort:
		return fmt.Sprintf("Exited with exit code %d", r.Code)
	}
	return runclient.EndText(r)
}

// signalText is the text of strsignal.
func signalText(sig unix.Signal) string {
	switch sig {
	case unix.SIGABRT:
		return "Aborted"
	case unix.SIGFPE:
		return "Floating point exception"
	case unix.SIGSEGV:
		return "Segmentation fault"
	}
	return capital(sig.String())
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
