package keeper

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/filch-hpc/filch/launcher/proc"
)

// The values of --mpi. The engine of PMI speaks versions 1 and 2 as each rank
// chooses.
const (
	mpiNone = "none"
	mpiAuto = "auto"
	mpiPMIx = "pmix"
)

// library is the kind of MPI library that the keeper serves a job for.
type library uint8

const (
	libraryPMI library = iota
	libraryPMIx
	libraryNone
)

// library chooses the kind of MPI library. All nodes choose alike: by the order and by
// the programs, which are the same on every node.
func (j *job) library() library {
	switch j.what.MPI {
	case mpiNone:
		return libraryNone
	case mpiPMIx:
		return libraryPMIx
	case mpiAuto, "":
	default:
		return libraryPMI
	}
	for i, p := range j.what.Programs {
		if len(p.Argv) == 0 {
			continue
		}
		env := j.programEnv(i)
		exe, known := j.known(i)
		if !known {
			// A program of other nodes only.
			var f *proc.Failure
			if exe, f = j.findProgram(i, p.Argv[0], env); f != nil {
				continue
			}
		}
		if needsOpenMPI(exe, env) {
			return libraryPMIx
		}
		if j.order.Launch.Size < 2 && !mentionsMPI4py(p.Argv, cwdOf(&j.what, i)) {
			continue // a rank alone is right under each protocol, unless it spawns ranks
		}
		below := search{cwd: j.what.Cwd, env: env}
		if interpreted(exe, env) || below.startsOpenMPI(exe, p.Argv) {
			return libraryPMIx
		}
	}
	return libraryPMI
}

// known is program i as a rank of this node found it.
func (j *job) known(i int) (proc.Program, bool) {
	for _, r := range j.ranks {
		if r.program == i {
			return r.exe, true
		}
	}
	return proc.Program{}, false
}

// openMPI reports whether libs has a library of Open MPI: libmpi.so.40 or its Fortran
// bindings, all of version 40 in Open MPI 4 and 5.
func openMPI(libs []string) bool {
	return slices.ContainsFunc(libs, func(l string) bool {
		return strings.HasPrefix(l, "libmpi") && strings.HasSuffix(l, ".so.40")
	})
}

// mpich reports whether libs has a library of MPICH, or of a derivative with the same binary
// interface: libmpich.so.12, libmpi.so.12.
func mpich(libs []string) bool {
	return slices.ContainsFunc(libs, func(l string) bool {
		return strings.HasPrefix(l, "libmpich") || strings.HasPrefix(l, "libmpi") && strings.HasSuffix(l, ".so.12")
	})
}

// interpreted reports whether a script or its interpreter is likely to load Open MPI: the
// needed libraries of an interpreter do not show this. The signs are the loaded
// environment modules and, for Python, the mpi4py that this Python would import.
func interpreted(exe proc.Program, env []string) bool {
	interp := exe.Path
	if !exe.Info.IsELF {
		interp = exe.Script
		if modules, _ := proc.LookupEnv(env, "LOADEDMODULES"); openMPIModule(modules) {
			return true
		}
	}
	if filepath.Base(interp) == "env" {
		// #!/usr/bin/env python3
		interp = findIn(exe.ScriptArg, env)
	}
	if !strings.HasPrefix(filepath.Base(interp), "python") {
		return false
	}
	return openMPI(mpi4pyNeeds(interp, env))
}

// mentionsMPI4py reports whether a command line, or a file named there, names mpi4py. A single
// rank of Python needs PMIx only to spawn ranks, and costs more with PMIx.
func mentionsMPI4py(argv []string, cwd string) bool {
	const name = "mpi4py"
	for _, a := range argv {
		if strings.Contains(a, name) {
			return true
		}
		if !strings.HasSuffix(a, ".py") {
			continue
		}
		if !filepath.IsAbs(a) {
			a = filepath.Join(cwd, a)
		}
		f, err := os.Open(a)
		if err != nil {
			continue
		}
		head := make([]byte, mentionBytes)
		n, _ := f.ReadAt(head, 0)
		f.Close()
		if bytes.Contains(head[:n], []byte(name)) {
			return true
		}
	}
	return false
}

// mentionBytes is how much of a script is searched: imports stand at the beginning.
const mentionBytes = 64 << 10

// openMPIModule reports whether a list of environment modules names Open MPI.
func openMPIModule(list string) bool {
	for m := range strings.SplitSeq(strings.ToLower(list), ":") {
		name, _, _ := strings.Cut(m, "/")
		switch strings.NewReplacer("-", "", "_", "").Replace(name) {
		case "openmpi", "ompi", "hpcx":
			return true
		}
	}
	return false
}

func findIn(name string, env []string) string {
	path, _ := proc.LookupEnv(env, "PATH")
	for _, dir := range filepath.SplitList(path) {
		if full := filepath.Join(dir, name); name != "" && proc.PathExists(full) {
			return full
		}
	}
	return ""
}

// mpi4pyNeeds returns the libraries needed by the MPI module of the mpi4py that this
// Python would import: the first mpi4py in the order of Python's path, as far as the path
// is known without running Python.
func mpi4pyNeeds(python string, env []string) []string {
	var dirs []string
	if p, ok := proc.LookupEnv(env, "PYTHONPATH"); ok {
		dirs = filepath.SplitList(p)
	}
	home, _ := proc.LookupEnv(env, "HOME")
	prefix := filepath.Dir(filepath.Dir(python))
	patterns := []string{home + "/.local/lib/python3*/site-packages", prefix + "/lib/python3*/site-packages"}
	if prefix == "/usr" || prefix == "/" {
		patterns = append(patterns, "/usr/local/lib/python3*/dist-packages", "/usr/lib/python3/dist-packages", "/usr/lib64/python3*/site-packages")
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	if proc.PathExists(filepath.Join(prefix, "pyvenv.cfg")) {
		// A virtual environment sees nothing but itself.
		dirs = slices.DeleteFunc(dirs, func(d string) bool { return !strings.HasPrefix(d, prefix) })
	}
	for _, d := range dirs {
		modules, _ := filepath.Glob(filepath.Join(d, "mpi4py", "MPI*.so"))
		for _, m := range modules {
			f, err := os.Open(m)
			if err != nil {
				continue
			}
			head := make([]byte, proc.HeadBytes)
			n, _ := f.ReadAt(head, 0)
			needed := proc.ReadELF(f, head[:n]).Needed
			f.Close()
			return needed
		}
	}
	return nil
}
