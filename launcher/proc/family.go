package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch/launcher"
)

// The values of --mpi. The engine of PMI speaks versions 1 and 2 as each rank
// chooses.
const (
	mpiNone = "none"
	mpiAuto = "auto"
	mpiPMIx = "pmix"
)

// library is the kind of MPI library that a job is served for.
type library uint8

const (
	libraryPMI library = iota
	libraryPMIx
	libraryNone
)

// library chooses it. All nodes choose alike: by the order and by programs that
// are the same everywhere.
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
			var f *failure
			if exe, f = findProgram(p.Argv[0], j.what.Cwd, env, j.node()); f != nil {
				continue
			}
		}
		if needsOpenMPI(exe, env) || j.order.Launch.Size > 1 && interpreted(exe, p, env) {
			return libraryPMIx
		}
	}
	return libraryPMI
}

// known is program i as a rank of this node found it.
func (j *job) known(i int) (program, bool) {
	for _, r := range j.ranks {
		if r.program == i {
			return r.exe, true
		}
	}
	return program{}, false
}

// openMPI reports whether any of these is a library of Open MPI: libmpi.so.40
// and those of its Fortran bindings, all of version 40 in Open MPI 4 and 5.
func openMPI(libs []string) bool {
	return slices.ContainsFunc(libs, func(l string) bool {
		return strings.HasPrefix(l, "libmpi") && strings.HasSuffix(l, ".so.40")
	})
}

// interpreted reports whether a script or its interpreter is likely to load Open
// MPI: its ELF needs say nothing then. What says something is the environment
// modules that are loaded, and for Python the mpi4py that it would import.
func interpreted(exe program, p launcher.Program, env []string) bool {
	interp := exe.path
	if !exe.info.elf {
		interp = exe.script
		if modules, _ := lookupEnv(env, "LOADEDMODULES"); openMPIModule(modules) {
			return true
		}
	}
	if filepath.Base(interp) == "env" {
		// #!/usr/bin/env python3
		interp = findIn(exe.scriptArg, env)
	}
	if !strings.HasPrefix(filepath.Base(interp), "python") {
		return false
	}
	return openMPI(mpi4pyNeeds(interp, env))
}

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
	path, _ := lookupEnv(env, "PATH")
	for _, dir := range filepath.SplitList(path) {
		if full := filepath.Join(dir, name); name != "" && exists(full) {
			return full
		}
	}
	return ""
}

// mpi4pyNeeds is what the MPI module of mpi4py needs that this Python would
// import: the first in the order of its path, as far as that is known without
// running it.
func mpi4pyNeeds(python string, env []string) []string {
	var dirs []string
	if p, ok := lookupEnv(env, "PYTHONPATH"); ok {
		dirs = filepath.SplitList(p)
	}
	home, _ := lookupEnv(env, "HOME")
	prefix := filepath.Dir(filepath.Dir(python))
	patterns := []string{home + "/.local/lib/python3*/site-packages", prefix + "/lib/python3*/site-packages"}
	if prefix == "/usr" || prefix == "/" {
		patterns = append(patterns, "/usr/local/lib/python3*/dist-packages", "/usr/lib/python3/dist-packages", "/usr/lib64/python3*/site-packages")
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	if exists(filepath.Join(prefix, "pyvenv.cfg")) {
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
			head := make([]byte, headBytes)
			n, _ := f.ReadAt(head, 0)
			needed := readELF(f, head[:n]).needed
			f.Close()
			return needed
		}
	}
	return nil
}

// Times of the look for ranks that run alone.
const (
	singletonFirst = 250 * time.Millisecond
	singletonLast  = 20 * time.Second
)

// lookForSingletons warns, once, of ranks whose MPI library is served in
// another way than it asks: each takes itself for the only one, and all end
// with 0. It finds those that were started by way of an interpreter.
func (w *wireup) lookForSingletons(after time.Duration) {
	if w.engine == nil || w.job.order.Launch.Size < 2 || after > singletonLast {
		return
	}
	lib, name, asks, remedy := "/libmpi.so.40", "Open MPI", "PMIx", "pmix"
	if w.pmix != nil {
		lib, name, asks, remedy = "/libmpich.so.", "MPICH", "PMI", "pmi1"
	}
	w.look = w.job.keeper.poll.after(after, func() {
		w.look = nil
		if w.engine.Spoke() {
			return
		}
		for _, r := range w.job.ranks {
			if r.phase != rankRunning {
				continue
			}
			maps, _ := os.ReadFile("/proc/" + strconv.Itoa(r.pid) + "/maps")
			if bytes.Contains(maps, []byte(lib)) {
				w.job.warn(fmt.Sprintf("rank %d uses %s, which needs %s, and none of the %d ranks on %s has asked for the others: each runs alone; try --mpi=%s",
					r.id, name, asks, len(w.job.ranks), w.job.node(), remedy))
				return
			}
			break
		}
		w.lookForSingletons(4 * after)
	})
}
