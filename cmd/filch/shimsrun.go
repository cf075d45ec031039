package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
)

// srunMain is srun: `filch run` with srun's defaults, inputs, words and codes.
func srunMain(args []string) int {
	manner.fault = 1
	if n, err := strconv.Atoi(os.Getenv("SLURM_EXIT_ERROR")); err == nil && n >= 0 && n < 256 {
		manner.fault = n
	}
	manner.report, manner.code = srunReport, srunCode
	r, err := spec.ParseSrun(args, os.Getenv)
	switch {
	case err != nil:
		return handOn(err.Error())
	case r.Client.Foreign == "--version" || r.Client.Foreign == "--help" || r.Client.Foreign == "--usage":
		return handOn("")
	case r.Client.Foreign != "":
		return handOn("filch does not do " + r.Client.Foreign)
	}
	return shimRun(r)
}

// shimRun runs what a shim has read.
func shimRun(r *spec.Run) int {
	around, err := surroundings()
	if err != nil {
		return fail(err)
	}
	warnings, err := r.Finish(around)
	if err != nil {
		return handOn(err.Error())
	}
	if !r.Client.Quiet {
		for _, w := range warnings {
			warn(w)
		}
	}
	manner.absent = func(err error) int { return handOn(err.Error()) }
	return launch(r, around)
}

// srunCode is srun's exit code: the highest of the ranks, which the launcher
// has found, and errno for a program that cannot be exec'ed.
func srunCode(kind launcher.CauseKind, code int32) int {
	switch {
	case kind == launcher.CauseNotFound:
		return int(unix.ENOENT)
	case kind == launcher.CauseNotExec:
		return int(unix.EACCES)
	case kind == launcher.CauseInterrupt, kind == launcher.CauseCancel, kind == launcher.CauseClientGone:
		return int(code)
	case code == filch.ExitOurs:
		return manner.fault
	}
	return int(code)
}

// srunReport prints the bad ends in srun's words.
func srunReport(s *session, e launcher.Ended) {
	for _, node := range s.nodes {
		there := e
		there.Ranks = slices.DeleteFunc(slices.Clone(e.Ranks), func(r launcher.RankEnd) bool { return s.nodeOf(r.Rank) != node.Node })
		for _, g := range s.folded(there, srunEnd) {
			word := "task"
			if g.count > 1 {
				word = "tasks"
			}
			say("error: " + g.nodes + ": " + word + " " + g.ranks + ": " + g.text)
		}
	}
	switch e.Cause.Kind {
	case launcher.CauseNotFound, launcher.CauseNotExec:
		what := unix.ENOENT
		if e.Cause.Kind == launcher.CauseNotExec {
			what = unix.EACCES
		}
		program := ""
		if len(s.spec.Argv) > 0 {
			program = s.spec.Argv[0]
		}
		say(fmt.Sprintf("error: %s: execve(): %s: %s", e.Cause.Node, program, capital(what.Error())))
	case launcher.CauseTimeLimit:
		say(fmt.Sprintf("error: STEP %d CANCELLED DUE TO TIME LIMIT", e.Job))
	case launcher.CauseExit, launcher.CauseSignal, launcher.CauseOOM, launcher.CauseNone:
	default:
		say("error: " + e.Cause.Text)
	}
}

// srunEnd says how a rank ended as srun does.
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
	return endText(r)
}

// signalText is what strsignal says.
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
