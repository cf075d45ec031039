package keeper

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// pmiFD is the descriptor of a rank's PMI server: the first after the standard
// descriptors.
const pmiFD = 3

// makeFiles makes the pipes of a rank and chooses the descriptors that the rank inherits.
func (j *job) makeFiles(r *rank) (err error) {
	if j.what.Pty != nil && r.id == 0 {
		err = j.io.makePty(r)
	} else {
		if err = j.in.connect(r); err == nil {
			err = j.io.connect(r)
		}
	}
	if err == nil {
		err = j.mpi.connect(r)
	}
	return err
}

// resolve makes a file name of a pattern absolute.
func (j *job) resolve(pattern string, r *rank) string {
	place := output.Place{
		Job: j.ident().Job, Name: j.order.Launch.Name,
		Rank: r.id, Index: j.order.Index, Node: j.node(),
	}
	if g := j.what.Task; g != nil {
		place.Job, place.Task = g.Job, strconv.Itoa(int(g.Number))
	}
	if s := j.what.Slurm; s != nil && s.Job != 0 {
		place.Job, place.Array, place.Task, place.Name, place.Step = s.Job, s.Array, s.Task, s.Name, j.order.Launch.Step
	}
	if strings.Contains(pattern, "u") {
		place.User = proc.UserName() // reads a file
	}
	name := output.Expand(pattern, place)
	if !filepath.IsAbs(name) {
		name = filepath.Join(j.what.Cwd, name)
	}
	return name
}

// openOutput opens an output file.
func (j *job) openOutput(name string) (int, *proc.Failure) {
	fd, err := proc.OpenOutput(name, j.what.IO.Append)
	if err != nil {
		return -1, proc.Failf(launcher.CauseOurs, proc.ErrorKind(err), "cannot write %s on %s: %s", name, j.node(), proc.Reason(err))
	}
	return fd, nil
}

// openInput opens a file for a rank to read, without waiting for the writer of a named
// pipe: the rank finds a pipe without a writer empty.
func openInput(name string) (int, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err == nil {
		unix.SetNonblock(fd, false)
	}
	return fd, err
}
