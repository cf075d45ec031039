package keeper

import (
	"os"
	"os/exec"
	"path/filepath"
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
