package launcher

import (
	"fmt"

	"github.com/filch-hpc/filch"
)

// Code returns the exit code of `filch run` for an end or a cause of kind k; c is the
// rank's code or the signal's number.
func (k CauseKind) Code(c int32) int32 {
	switch k {
	case CauseNone:
		return 0
	case CauseAbort:
		return c & 0xff // MPI_Abort(comm, 0) means success, as with other launchers
	case CauseExit:
		if c&0xff == 0 {
			return 1 // a code of 256: not a success
		}
		return c & 0xff
	case CauseSignal:
		return filch.ExitSignalBase + c
	case CauseOOM:
		return filch.ExitSignalBase + SigKill
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

// SrunCode returns the code of an end as srun counts; a signal outranks every exit code.
func (k CauseKind) SrunCode(c int32) int32 {
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
		return k.Code(c)
	}
	return 1
}

// State returns the final state for a cause of kind k.
func (k CauseKind) State() filch.State {
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

// Line returns a line about the end of a rank.
func (e *RankEnd) Line(node filch.NodeName) string {
	text := e.Text
	if text == "" {
		switch e.Kind {
		case CauseExit:
			text = fmt.Sprintf("exited with code %d", e.Code)
		case CauseSignal:
			text = "killed by " + SignalName(e.Code)
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
