package proc

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// What MPICH and UCX do to a rank that has lost another, and what they print.
const (
	// mpichLost is the code with which MPICH aborts a rank whose communication
	// fails (MPI_ERR_OTHER). A program may do so too; MPICH prints mpichAsked then.
	mpichLost  = 15
	mpichAsked = "application called MPI_Abort("
	// ucxTrace ends what UCX prints before it ends its process by SIGABRT.
	ucxTrace = "\n=================================\n"
)

// doubt judges an MPI_Abort with the code of MPICH for a lost connection.
func (j *job) doubt(r filch.Rank) launcher.Doubt {
	if asked, _ := j.io.said(r, mpichAsked); asked {
		return launcher.DoubtNone
	}
	return launcher.DoubtMuch
}

// doubtAbort judges a SIGABRT between MPI_Init and MPI_Finalize: that of UCX
// leaves a trace, where we see what the rank prints.
func (j *job) doubtAbort(r filch.Rank) launcher.Doubt {
	if trace, known := j.io.said(r, ucxTrace); known && !trace {
		return launcher.DoubtNone
	}
	return launcher.DoubtSome
}
