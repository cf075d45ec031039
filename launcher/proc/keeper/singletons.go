package keeper

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch/launcher/pmi"
	"github.com/filch-hpc/filch/launcher/proc"
)

// Delays of the search for ranks that run alone.
const (
	singletonFirst = 250 * time.Millisecond
	singletonLast  = 20 * time.Second
)

// lookForSingletons warns, once, of ranks with an MPI library that asks for another
// protocol than the keeper serves: each rank then runs as a job of size 1, and all end
// with 0. The search finds ranks started
// through an interpreter or a shell, while they run; explainRefusal and tellAlone find ranks at
// their end.
func (w *wireup) lookForSingletons(after time.Duration) {
	if w.engine == nil || w.job.order.Launch.Size < 2 || after > singletonLast {
		return
	}
	o := w.others()
	w.look = w.job.keeper.poll.After(after, func() {
		w.look = nil
		if w.alone || w.engine.Spoke() {
			return
		}
		for _, r := range w.job.ranks {
			if r.phase != rankRunning {
				continue
			}
			if maps(r.pid, o.lib) {
				w.alone = true
				w.job.warn(fmt.Sprintf("rank %d uses %s, which needs %s, and none of the %d ranks on %s has asked for the others: %s; try --mpi=%s",
					r.id, o.name, o.asks, len(w.job.ranks), w.job.node(), o.fate, o.remedy))
				return
			}
			break
		}
		w.lookForSingletons(4 * after)
	})
}

// otherMPI is an MPI library that asks for another protocol than the keeper serves.
type otherMPI struct {
	lib, name, asks, remedy string
	fate, was               string // of the ranks
	linked                  func(libs []string) bool
}

func (w *wireup) others() otherMPI {
	if w.pmix != nil {
		return otherMPI{"/libmpich.so.", "MPICH", "PMI", "pmi1", "each runs alone", "each ran alone", mpich}
	}
	return otherMPI{"/libmpi.so.40", "Open MPI", "PMIx", "pmix", "MPI_Init fails, or each runs alone", "MPI_Init failed, or each ran alone", openMPI}
}

// tellAlone warns when the last rank here ends before the search found the library in a rank, if
// the first rank of a program is here, the program is linked with such a library, and none of its
// ranks asked for the others. Without --mpi, the keeper serves PMI only to programs that are not
// linked with Open MPI, and reads no file here.
func (w *wireup) tellAlone() {
	auto := w.job.what.MPI == mpiAuto || w.job.what.MPI == ""
	if w.engine == nil || w.alone || w.job.alive > 0 || w.job.order.Launch.Size < 2 || auto && w.pmix == nil {
		return
	}
	o := w.others()
	for _, r := range w.job.ranks {
		if r.told || !w.first(r) || w.spoke(r.program) {
			continue
		}
		env, python := w.job.programEnv(r.program), r.exe.Path
		if !r.exe.Info.IsELF {
			python = r.exe.Script
		}
		if needs(r.exe, env, o.linked) || mentionsMPI4py(r.argv, cwdOf(&w.job.what, r.program)) && o.linked(mpi4pyNeeds(python, env)) {
			w.alone = true
			remedy := "try --mpi=" + o.remedy
			if w.engine.Spoke() {
				remedy = "another program of the run has the library that fits"
			}
			w.job.warn(fmt.Sprintf("rank %d uses %s, which needs %s, and none of the %d ranks on %s asked for the others before its end: %s; %s",
				r.id, o.name, o.asks, w.count(r.program), w.job.node(), o.was, remedy))
			return
		}
	}
}

// first reports whether r is the first rank of its program.
func (w *wireup) first(r *rank) bool {
	spans := w.job.what.Programs[r.program].Ranks
	return r.id == 0 || len(spans) > 0 && spans[0].First == r.id
}

// spoke reports whether a rank of a program here has come to MPI_Init.
func (w *wireup) spoke(program int) bool {
	return slices.ContainsFunc(w.job.ranks, func(r *rank) bool { return r.program == program && w.engine.State(r.id) != pmi.Fresh })
}

// count is how many ranks of a program are here.
func (w *wireup) count(program int) (n int) {
	for _, r := range w.job.ranks {
		if r.program == program {
			n++
		}
	}
	return n
}

// mapsProcesses is the number of processes of one rank in which maps looks for a library.
const mapsProcesses = 64

// maps reports whether the process pid, or a process that it started, has mapped lib.
func maps(pid int, lib string) bool {
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		dir := "/proc/" + strconv.Itoa(pids[i])
		mapped, _ := os.ReadFile(dir + "/maps")
		if bytes.Contains(mapped, []byte(lib)) {
			return true
		}
		children, _ := os.ReadFile(dir + "/task/" + strconv.Itoa(pids[i]) + "/children")
		for field := range strings.FieldsSeq(string(children)) {
			if child, err := strconv.Atoi(field); err == nil && len(pids) < mapsProcesses {
				pids = append(pids, child)
			}
		}
	}
	return false
}

// Open MPI 4 starts a program alone if no launcher serves PMIx, and each rank would end
// with 0 as the only rank of its job. With openLaunched in the environment, MPI_Init of
// such a rank fails instead, and openRefused begins the last line of Open MPI.
const (
	openLaunched = "OMPI_MCA_schizo=ompi"
	openRefused  = "Local abort before MPI_INIT completed"
)

// refuseAlone makes ranks of Open MPI fail where the keeper serves PMI. A value of the user
// is kept.
func (w *wireup) refuseAlone(env []string) []string {
	name, _, _ := strings.Cut(openLaunched, "=")
	if _, given := proc.LookupEnv(env, name); given || w.job.order.Launch.Size < 2 {
		return env
	}
	return append(env, openLaunched)
}

// explainRefusal tells, once, why MPI_Init of r has failed.
func (w *wireup) explainRefusal(r *rank) {
	if w.engine == nil || w.pmix != nil || w.alone || w.engine.Spoke() {
		return
	}
	if refused, _ := w.job.io.said(r.id, openRefused); refused {
		w.alone = true
		w.job.warn(fmt.Sprintf("rank %d uses Open MPI, which needs PMIx, and MPI_Init has failed; try --mpi=pmix", r.id))
	}
}
