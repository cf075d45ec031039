package keeper

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/filch-hpc/filch/launcher/proc"
)

// Bounds on the search for the MPI program that a shell or a wrapper starts.
const (
	scriptBytes = 64 << 10 // read of each script
	scriptWords = 64       // names looked up, all scripts together
	scriptDepth = 2        // scripts that name scripts
)

var (
	shells   = []string{"sh", "bash", "dash", "ksh", "mksh", "zsh", "csh", "tcsh", "busybox"}
	wrappers = []string{
		"env", "nice", "ionice", "chrt", "nohup", "time", "timeout", "stdbuf", "setarch", "prlimit", "taskset", "numactl",
		"hwloc-bind", "likwid-pin", "likwid-perfctr", "perf", "strace", "ltrace", "gdb", "gdbserver", "valgrind", "catchsegv",
		"xterm", "unshare", "setsid", "heaptrack",
	}
	// starters start ranks of their own: the programs behind a starter are no ranks of
	// the job.
	starters = []string{"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "prun", "srun", "filch"}
)

// search looks for the MPI program that a shell, a script or a wrapper starts, by the
// names in the command line and in the scripts.
type search struct {
	cwd   string
	env   []string
	words int  // names looked up
	mpi   bool // a program was found that is linked with an MPI library
	open  bool // this library is Open MPI
	// python is set by a Python whose mpi4py is linked with Open MPI. Python does much
	// else in scripts, so a program that is linked with an MPI library counts more.
	python bool
	over   bool
}

// startsOpenMPI reports whether the program exe, started as argv, is a shell, a script or a
// wrapper that is likely to start a program of Open MPI. The first program that is linked
// with an MPI library decides.
func (s *search) startsOpenMPI(exe proc.Program, argv []string) bool {
	s.program(exe, argv, 0)
	if s.mpi {
		return s.open
	}
	return s.python
}

// program looks at what exe starts.
func (s *search) program(exe proc.Program, argv []string, depth int) {
	base := filepath.Base(exe.Path)
	switch {
	case isShellScript(exe):
		s.script(exe.Path, depth)
	case !exe.Info.IsELF || !slices.Contains(shells, base) && !slices.Contains(wrappers, base):
		return
	}
	for _, arg := range argv[1:] {
		s.text(arg, depth)
	}
}

func isShellScript(exe proc.Program) bool {
	interp := filepath.Base(exe.Script)
	if interp == "env" {
		interp = filepath.Base(exe.ScriptArg)
	}
	return exe.Shell || slices.Contains(shells, interp)
}

// script reads a script. A script that cannot be read tells nothing: the shell reports it.
func (s *search) script(path string, depth int) {
	if depth >= scriptDepth {
		return
	}
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, scriptBytes))
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			s.text(line, depth+1)
		}
	}
}

// text looks up the words of a command.
func (s *search) text(command string, depth int) {
	for word := range strings.FieldsFuncSeq(command, func(r rune) bool { return strings.ContainsRune(" \t\r\n;&|()<>`\"'", r) }) {
		if s.over || s.mpi {
			return
		}
		s.word(word, depth)
	}
}

func (s *search) word(word string, depth int) {
	if strings.HasPrefix(word, "-") || strings.ContainsAny(word, "=*?[") {
		return
	}
	word = os.Expand(word, func(name string) string {
		v, _ := proc.LookupEnv(s.env, name)
		return v
	})
	if word == "" {
		return
	}
	if slices.Contains(starters, filepath.Base(word)) || s.words >= scriptWords {
		s.over = true
		return
	}
	s.words++
	exe, f := proc.FindProgram(word, s.cwd, s.env, "")
	if f != nil {
		return
	}
	switch {
	case exe.Info.IsELF && needsOpenMPI(exe, s.env):
		s.mpi, s.open = true, true
	case exe.Info.IsELF && slices.ContainsFunc(exe.Info.Needed, isMPICH):
		s.mpi = true
	case isShellScript(exe):
		s.script(exe.Path, depth)
	default:
		s.python = s.python || interpreted(exe, s.env)
	}
}

// isMPICH reports whether lib is the library of MPICH or of a derivative of the same ABI.
func isMPICH(lib string) bool {
	return strings.HasPrefix(lib, "libmpich.so") || strings.HasPrefix(lib, "libmpi.so.12")
}
