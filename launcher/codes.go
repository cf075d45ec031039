package launcher

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
)

// Signals by number: the brain knows no operating system.
const (
	sigInt  = 2
	sigIll  = 4
	sigBus  = 7
	sigFPE  = 8
	sigKill = 9
	sigSegv = 11
	sigTerm = 15
)

var signalNames = map[int32]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
	24: "SIGXCPU", 25: "SIGXFSZ",
}

func signalName(sig int32) string {
	if s, ok := signalNames[sig]; ok {
		return s
	}
	return fmt.Sprintf("signal %d", sig)
}

// code is the exit code of `filch run` for an end or a cause of that kind.
func code(k CauseKind, c int32) int32 {
	switch k {
	case CauseNone:
		return 0
	case CauseAbort:
		return c & 0xff // MPI_Abort(comm, 0) says success, as with other launchers
	case CauseExit:
		if c&0xff == 0 {
			return 1 // a code of 256: not a success
		}
		return c & 0xff
	case CauseSignal:
		return filch.ExitSignalBase + c
	case CauseOOM:
		return filch.ExitSignalBase + sigKill
	case CauseNoFinalize, CauseProtocol:
		return 1
	case CauseNotExec:
		return filch.ExitNotExec
	case CauseNotFound:
		return filch.ExitNotFound
	case CauseNodeLost:
		return filch.ExitNodeLost
	case CauseTimeLimit:
		return filch.ExitTimeLimit
	case CauseCancel, CauseClientGone:
		return filch.ExitCancelled
	case CauseInterrupt:
		return filch.ExitInterrupt
	case CauseWaitFirst:
		return max(c, 1)
	}
	return filch.ExitOurs
}

// srunCode is the code of an end as srun counts it; a signal outranks every
// exit code.
func srunCode(k CauseKind, c int32) int32 {
	switch k {
	case CauseNone:
		return 0
	case CauseNotFound:
		return 2
	case CauseNotExec:
		return 13
	case CauseOOM:
		return 253
	case CauseSignal:
		return filch.ExitSignalBase + c
	case CauseExit, CauseAbort:
		return code(k, c)
	}
	return 1
}

// stateOf is the final state that a cause means.
func stateOf(k CauseKind) filch.State {
	switch k {
	case CauseNone:
		return filch.OK
	case CauseTimeLimit, CauseOOM:
		return filch.Killed
	case CauseNodeLost:
		return filch.Lost
	case CauseCancel, CauseInterrupt, CauseClientGone:
		return filch.Cancelled
	}
	return filch.Failed
}

// endText is a line about how a rank ended.
func endText(e *RankEnd, node filch.NodeName) string {
	text := e.Text
	if text == "" {
		switch e.Kind {
		case CauseExit:
			text = fmt.Sprintf("exited with code %d", e.Code)
		case CauseSignal:
			text = "killed by " + signalName(e.Code)
			if e.Core {
				text += " (core dumped)"
			}
		case CauseOOM:
			text = "killed: out of memory"
		case CauseAbort:
			text = fmt.Sprintf("called MPI_Abort with code %d", e.Code)
		case CauseNoFinalize:
			text = "exited with code 0 after MPI_Init without MPI_Finalize"
		case CauseNotExec:
			text = "the program cannot be executed"
		case CauseNotFound:
			text = "the program was not found"
		case CauseProtocol:
			text = "broke the PMI protocol"
		default:
			text = "could not be run"
		}
	}
	return fmt.Sprintf("rank %d on %s: %s", e.Rank, node, text)
}

// clockText is a duration as a user reads it.
func clockText(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	if d%time.Second == 0 {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return d.Round(time.Millisecond).String()
}
