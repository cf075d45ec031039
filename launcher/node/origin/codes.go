package origin

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// code returns the exit code of `filch run` for an end or a cause of kind k; c is the
// rank's code or the signal's number.
func code(k launcher.CauseKind, c int32) int32 {
	switch k {
	case launcher.CauseNone:
		return 0
	case launcher.CauseAbort:
		return c & 0xff // MPI_Abort(comm, 0) means success, as with other launchers
	case launcher.CauseExit:
		if c&0xff == 0 {
			return 1 // a code of 256: not a success
		}
		return c & 0xff
	case launcher.CauseSignal:
		return filch.ExitSignalBase + c
	case launcher.CauseOOM:
		return filch.ExitSignalBase + launcher.SigKill
	case launcher.CauseNoFinalize, launcher.CauseProtocol:
		return 1
	case launcher.CauseNotExec:
		return filch.ExitNotExec
	case launcher.CauseNotFound:
		return filch.ExitNotFound
	case launcher.CauseNodeLost:
		return filch.ExitNodeLost
	case launcher.CauseTimeLimit:
		return filch.ExitTimeLimit
	case launcher.CauseCancel, launcher.CauseClientGone:
		return filch.ExitCancelled
	case launcher.CauseInterrupt:
		return filch.ExitInterrupt
	case launcher.CauseWaitFirst:
		return max(c, 1)
	}
	return filch.ExitOurs
}

// srunCode returns the code of an end as srun counts; a signal outranks every exit code.
func srunCode(k launcher.CauseKind, c int32) int32 {
	switch k {
	case launcher.CauseNone:
		return 0
	case launcher.CauseNotFound:
		return 2
	case launcher.CauseNotExec:
		return 13
	case launcher.CauseOOM:
		return 253
	case launcher.CauseSignal:
		return filch.ExitSignalBase + c
	case launcher.CauseExit, launcher.CauseAbort:
		return code(k, c)
	}
	return 1
}

// stateOf returns the final state for a cause of kind k.
func stateOf(k launcher.CauseKind) filch.State {
	switch k {
	case launcher.CauseNone:
		return filch.OK
	case launcher.CauseTimeLimit, launcher.CauseOOM:
		return filch.Killed
	case launcher.CauseNodeLost:
		return filch.Lost
	case launcher.CauseCancel, launcher.CauseInterrupt, launcher.CauseClientGone:
		return filch.Cancelled
	}
	return filch.Failed
}

// endText returns a line about the end of a rank.
func endText(e *launcher.RankEnd, node filch.NodeName) string {
	text := e.Text
	if text == "" {
		switch e.Kind {
		case launcher.CauseExit:
			text = fmt.Sprintf("exited with code %d", e.Code)
		case launcher.CauseSignal:
			text = "killed by " + launcher.SignalName(e.Code)
			if e.Core {
				text += " (core dumped)"
			}
		case launcher.CauseOOM:
			text = "killed: out of memory"
		case launcher.CauseAbort:
			text = fmt.Sprintf("called MPI_Abort with code %d", e.Code)
		case launcher.CauseNoFinalize:
			text = "exited with code 0 after MPI_Init without MPI_Finalize"
		case launcher.CauseNotExec:
			text = "the program cannot be executed"
		case launcher.CauseNotFound:
			text = "the program was not found"
		case launcher.CauseProtocol:
			text = "broke the PMI protocol"
		default:
			text = "could not be run"
		}
	}
	return fmt.Sprintf("rank %d on %s: %s", e.Rank, node, text)
}
