package keeper

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
)

func TestLibraryIsChosen(t *testing.T) {
	dir := t.TempDir()
	module := dir + "/lib/python3.11/site-packages/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so"
	if err := os.MkdirAll(filepath.Dir(module), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-shared", "-o", dir + "/libmpi.so.40", "-Wl,-soname,libmpi.so.40", "-xc", "/dev/null"},
		{"-shared", "-o", module, "-Wl,--no-as-needed", "-xc", "/dev/null", "-xnone", dir + "/libmpi.so.40"},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v: %s; apt-get install gcc libc6-dev", err, out)
		}
	}
	for _, args := range [][]string{
		// A program that needs a library that needs Open MPI, found by its
		// path or by the environment's.
		{"-shared", "-o", dir + "/libmid.so.1", "-Wl,-soname,libmid.so.1", "-Wl,--no-as-needed", "-xc", "/dev/null", "-xnone", dir + "/libmpi.so.40"},
		{"-o", dir + "/run", "-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-rpath,$ORIGIN", "-xc", dir + "/main.c", "-xnone", dir + "/libmid.so.1"},
		{"-o", dir + "/bare", "-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all", "-xc", dir + "/main.c", "-xnone", dir + "/libmid.so.1"},
	} {
		if err := os.WriteFile(dir+"/main.c", []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v: %s; apt-get install gcc libc6-dev", err, out)
		}
	}
	inspected := func(name string) proc.Program {
		p, f := proc.Inspect(name, filepath.Join(dir, name), "n1")
		if f != nil {
			t.Fatal(f.Err)
		}
		return p
	}
	run, bare := inspected("run"), inspected("bare")
	python := dir + "/bin/python3"
	ompi := proc.Program{Path: "/x", Info: proc.Binary{IsELF: true, Needed: []string{"libmpi_mpifh.so.40", "libc.so.6"}}}
	mpich := proc.Program{Path: "/x", Info: proc.Binary{IsELF: true, Needed: []string{"libmpich.so.12"}}}
	snake := proc.Program{Path: python, Info: proc.Binary{IsELF: true, Needed: []string{"libc.so.6"}}}
	script := proc.Program{Path: dir + "/x.py", Script: "/usr/bin/env", ScriptArg: "python3"}
	shell := proc.Program{Path: dir + "/x.sh", Script: "/bin/sh"}
	for _, c := range []struct {
		name string
		mpi  string
		exe  proc.Program
		size int32
		env  string
		want library
	}{
		{"open-mpi", "auto", ompi, 2, "", libraryPMIx},
		{"open-mpi-alone", "", ompi, 1, "", libraryPMIx},
		{"open-mpi-otherwise", "pmi2", ompi, 2, "", libraryPMI},
		{"open-mpi-apart", "none", ompi, 2, "", libraryNone},
		{"by-a-library", "auto", run, 2, "", libraryPMIx},
		{"by-a-library-lost", "auto", bare, 2, "", libraryPMI},
		{"by-a-library-given", "auto", bare, 2, "LD_LIBRARY_PATH=/nonexistent:" + dir, libraryPMIx},
		{"mpich", "auto", mpich, 2, "", libraryPMI},
		{"mpich-otherwise", "pmix", mpich, 2, "", libraryPMIx},
		{"mpi4py", "auto", snake, 2, "", libraryPMIx},
		{"mpi4py-alone", "auto", snake, 1, "", libraryPMI},
		{"mpi4py-script", "auto", script, 2, "PATH=" + dir + "/bin", libraryPMIx},
		{"mpi4py-elsewhere", "auto", script, 2, "PATH=/nonexistent", libraryPMI},
		{"shell", "auto", shell, 2, "LOADEDMODULES=gcc/12:mpich/4", libraryPMI},
		{"shell-module", "auto", shell, 2, "LOADEDMODULES=gcc/12:OpenMPI/4.1.4-GCC", libraryPMIx},
	} {
		j := &job{ranks: []*rank{{exe: c.exe}}}
		j.what.Programs = []launcher.Program{{Argv: []string{"./x"}}}
		j.what.MPI, j.what.Env, j.order.Launch.Size = c.mpi, []string{c.env}, c.size
		if c.name == "mpi4py-script" {
			if err := os.MkdirAll(dir+"/bin", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(python, nil, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if got := j.library(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// TestLibraryOfACommand looks through shells, scripts and wrappers for the MPI program.
func TestLibraryOfACommand(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("main.c", "int main(void) { return 0; }\n")
	for _, args := range [][]string{
		{"-shared", "-o", "libmpi.so.40", "-Wl,-soname,libmpi.so.40", "-xc", "/dev/null"},
		{"-shared", "-o", "libmpich.so.12", "-Wl,-soname,libmpich.so.12", "-xc", "/dev/null"},
		{"-o", "open", "-Wl,--no-as-needed", "main.c", "./libmpi.so.40"},
		{"-o", "mpich", "-Wl,--no-as-needed", "main.c", "./libmpich.so.12"},
	} {
		c := exec.Command("gcc", args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v: %s; apt-get install gcc libc6-dev", err, out)
		}
	}
	write("direct.sh", "#!/bin/sh\n# ./mpich is another program\n./open \"$@\"\n")
	write("env.sh", "#!/usr/bin/env bash\nexec \"$HERE/open\" -v\n")
	write("bare", "./open\n")
	write("outer.sh", "#!/bin/sh\n. ./direct.sh\n")
	write("third.sh", "#!/bin/sh\n./outer.sh\n")
	write("other.sh", "#!/bin/sh\n./mpich && ./open\n")
	write("mpirun.sh", "#!/bin/sh\nmpirun -n 2 ./open\n")
	write("long.sh", "#!/bin/sh\n"+strings.Repeat("echo ./mpich-log\n", scriptWords)+"./open\n")
	for _, c := range []struct {
		name string
		argv []string
		want library
	}{
		{"script", []string{"./direct.sh"}, libraryPMIx},
		{"script of env", []string{"./env.sh"}, libraryPMIx},
		{"script without a first line", []string{"./bare"}, libraryPMIx},
		{"script of a script", []string{"./outer.sh"}, libraryPMIx},
		{"three scripts deep", []string{"./third.sh"}, libraryPMI},
		{"shell with a script", []string{"sh", "direct.sh"}, libraryPMIx},
		{"shell with a command", []string{"sh", "-c", "cd /; ulimit -s unlimited; '" + dir + "/open' x; exit $?"}, libraryPMIx},
		{"variable", []string{"sh", "-c", "${HERE}/open"}, libraryPMIx},
		{"program of PATH", []string{"bash", "-c", "open"}, libraryPMIx},
		{"wrapper", []string{"nice", "-n", "1", "./open"}, libraryPMIx},
		{"first program decides", []string{"./other.sh"}, libraryPMI},
		{"a starter of its own", []string{"./mpirun.sh"}, libraryPMI},
		{"data of another program", []string{"cat", "./open"}, libraryPMI},
		{"name of a pattern", []string{"sh", "-c", "ls ./op*; X=./open"}, libraryPMI},
		{"too many names", []string{"./long.sh"}, libraryPMI},
	} {
		env := []string{"PATH=" + dir + ":/usr/bin:/bin", "HERE=" + dir} // some machines have /usr/bin/open
		exe, f := proc.FindProgram(c.argv[0], dir, env, "n1")
		if f != nil {
			t.Fatal(f.Err)
		}
		j := &job{ranks: []*rank{{exe: exe}}}
		j.what.Programs = []launcher.Program{{Argv: c.argv}}
		j.what.Cwd, j.what.Env = dir, env
		for size, want := range map[int32]library{1: libraryPMI, 2: c.want} {
			j.order.Launch.Size = size
			if got := j.library(); got != want {
				t.Errorf("%s, %d ranks: got %d, want %d", c.name, size, got, want)
			}
		}
	}
}
