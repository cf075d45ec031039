// Package mpi holds MPI programs that show how a launcher treats real ones, and
// the acceptance tests that run them, MPICH's own examples, NetPIPE and
// ScaLAPACK's self-checks over several hosts.
package mpi

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed programs
var sources embed.FS

// Install is the line that installs what the tests run.
const Install = "apt-get install -y gcc libc6-dev mpich libmpich-dev mpich-doc netpipe-mpich2 scalapack-mpi-test libpmi2-0-dev " +
	"openmpi-bin libopenmpi-dev libpmix-dev netpipe-openmpi python3-mpi4py hpcc lammps iproute2 util-linux nftables"

// Examples is where Debian's mpich-doc has the sources of MPICH's examples.
const Examples = "/usr/share/doc/mpich/examples"

// The C compilers of the libraries; mpicc may be either's.
const (
	MPICH   = "mpicc.mpich"
	OpenMPI = "mpicc.openmpi"
)

// Build compiles those programs of this package that have these names into dir, with
// the compiler of one library.
func Build(dir, cc string, names ...string) error {
	for _, name := range names {
		src, err := sources.ReadFile("programs/" + name + ".c")
		if err != nil {
			return err
		}
		path := filepath.Join(dir, name+".c")
		if err := os.WriteFile(path, src, 0o644); err != nil {
			return err
		}
		if err := Compile(cc, path, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// BuildExamples compiles those of MPICH's examples that have these names.
func BuildExamples(dir string, names ...string) error {
	for _, name := range names {
		src := filepath.Join(Examples, name+".c")
		if _, err := os.Stat(src); err != nil {
			return fmt.Errorf("no example %s: %s", src, Install)
		}
		if err := Compile(MPICH, src, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Compile makes one program.
func Compile(cc, src, program string) error {
	args := []string{"-O1", "-o", program, src, "-lm"}
	if filepath.Base(src) == "pmi2.c" {
		// Not MPI: the library has the names of MPICH's own client.
		cc, args = "cc", append(args, "-lpmi2")
	}
	out, err := exec.Command(cc, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile %s: %w: %s; what it needs: %s", src, err, bytes.TrimSpace(out), Install)
	}
	return nil
}
