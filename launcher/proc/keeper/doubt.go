package keeper

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// The ways in which MPICH and UCX end a rank that has lost its peer, and the texts they
// print.
const (
	// mpichLost is the code with which MPICH aborts a rank whose communication fails
	// (MPI_ERR_OTHER). A program may call MPI_Abort with the same code; MPICH then prints
	// mpichAsked.
	mpichLost  = 15
	mpichAsked = "application called MPI_Abort("
	// ucxTrace is the end of the text that UCX prints before raising SIGABRT.
	ucxTrace = "\n=================================\n"
)

// doubt judges an MPI_Abort with the code of MPICH for a lost connection.
func (j *job) doubt(r filch.Rank) launcher.Doubt {
	if asked, _ := j.io.said(r, mpichAsked); asked {
		return launcher.DoubtNone
	}
	return launcher.DoubtMuch
}

// doubtAbort judges a SIGABRT between MPI_Init and MPI_Finalize: UCX prints a trace
// first, and we see the trace where the rank's output passes through the keeper.
func (j *job) doubtAbort(r filch.Rank) launcher.Doubt {
	if trace, known := j.io.said(r, ucxTrace); known && !trace {
		return launcher.DoubtNone
	}
	return launcher.DoubtSome
}
