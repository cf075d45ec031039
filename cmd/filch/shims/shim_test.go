package shims

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/spec"
)

func TestMPIWords(t *testing.T) {
	t.Setenv("SLURM_NTASKS", "")
	for line, want := range map[string]string{
		"./a":                           "--input=0 --ntasks=1 ./a",
		"-n 4 ./a -n 2":                 "--input=0 --ntasks=4 ./a -n 2",
		"-np 4 -ppn 2 -hosts a:2,b ./a": "--input=0 --ntasks-per-node=2 --nodelist=a,b --ntasks=4 ./a",
		"--host localhost:4 -n 2 ./a":   "--input=0 --ntasks=2 ./a",
		// Counts of hosts bound the ranks of a node, where the counts are equal.
		"--host a:2,b:2 -n 4 ./a":              "--input=0 --ntasks-per-node=2 --nodelist=a,b --ntasks=4 ./a",
		"--host a,a,b,b -n 4 ./a":              "--input=0 --ntasks-per-node=2 --nodelist=a,b --ntasks=4 ./a",
		"--host a,b -n 4 ./a":                  "--input=0 --nodelist=a,b --ntasks=4 ./a",
		"--host a:2,b -n 3 ./a":                "error: filch does not do different counts of ranks, a:2,b, in -host",
		"--host a:x,b -n 3 ./a":                "error: filch cannot read a:x of -host",
		"--host localhost,n2 -n 2 ./a":         "error: filch does not know which node localhost is, beside other nodes of -host",
		"-f testdata/hosts.equal -n 4 ./a":     "--input=0 --ntasks-per-node=2 --nodelist=a,b --ntasks=4 ./a",
		"-f testdata/hosts.unequal -n 4 ./a":   "error: filch does not do different counts of ranks, a:2,b:3, in -f",
		"-hosts a -n 1 ./a : -n 1 ./b":         "--input=0 --nodelist=a --ntasks=1 ./a : --ntasks=1 ./b",
		"-host a -n 1 ./a : -host b -n 1 ./b":  "error: filch does not do -host for a part of the command line",
		"-host a -n 1 ./a : -host a -n 1 ./b":  "--input=0 --nodelist=a --ntasks=1 ./a : --ntasks=1 ./b",
		"-wdir /x -n 1 ./a : -n 1 ./b":         "error: filch does not do -wdir for a part of the command line",
		"-wdir /x -n 1 ./a : -wdir /y ./b":     "error: filch does not do -wdir for a part of the command line",
		"-wdir /x -n 1 ./a : -wdir /x ./b":     "--input=0 --chdir=/x --ntasks=1 ./a : --ntasks=1 ./b",
		"--map-by ppr:2:node:pe=2 -n 4 ./a":    "--input=0 --ntasks-per-node=2 --cpus-per-task=2 --ntasks=4 ./a",
		"--map-by ppr:2:node,PE=2 -n 4 ./a":    "--input=0 --ntasks-per-node=2 --cpus-per-task=2 --ntasks=4 ./a",
		"--map-by slot:PE=2,OVERSUBSCRIBE ./a": "--input=0 --distribution=block --cpus-per-task=2 --overcommit --ntasks=1 ./a",
		"--map-by node:span,pe=2 ./a":          "--input=0 --distribution=cyclic --cpus-per-task=2 --ntasks=1 ./a",
		"--map-by slot:span,pe=2 ./a":          "error: filch does not map by slot with span",
		"--map-by node:nolocal ./a":            "error: filch does not map by node with nolocal",
		"--map-by ppr:2:socket ./a":            "error: filch does not map by ppr:2:socket",
		"--map-by ppr:2:node:dist ./a":         "error: filch does not map by ppr:2:node with dist",
		"--map-by socket ./a":                  "error: filch does not map by socket",
		"-bind-to socket ./a":                  "--input=0 --cpu-bind=sockets --ntasks=1 ./a",
		"-bind-to numa ./a":                    "--input=0 --cpu-bind=ldoms --ntasks=1 ./a",
		"-bind-to core:overload-allowed ./a":   "--input=0 --cpu-bind=cores --ntasks=1 ./a",
		"-bind-to hwthread ./a":                "--input=0 --cpu-bind=threads --ntasks=1 ./a",
		"-bind-to board ./a":                   "error: filch does not bind to board",
		"-genv A 1 -n 2 ./a : -n 1 ./b":        "--input=0 --ntasks=2 --export=ALL,A='1' ./a : --ntasks=1 ./b",
		"-genvnone -env B 2 -n 1 ./a":          "--input=0 --ntasks=1 --export=PATH,B='2' ./a",
		"--mca btl tcp,self -n 2 ./a":          "--input=0 --ntasks=2 --export=ALL,OMPI_MCA_btl='tcp,self' ./a",
		"--mca plm_rsh_agent x -n 2 ./a":       "--input=0 --ntasks=2 ./a",
		"--map-by ppr:2:node -n 4 ./a":         "--input=0 --ntasks-per-node=2 --ntasks=4 ./a",
		"-map-by node:pe=2 -n 4 ./a":           "--input=0 --distribution=cyclic --cpus-per-task=2 --ntasks=4 ./a",
		"--stdin all -n 2 ./a":                 "--input=0 --input=all --ntasks=2 ./a",
		"--allow-run-as-root -n 2 ./a":         "--input=0 --ntasks=2 ./a",
		"--oversubscribe --n 2 ./a":            "--input=0 --overcommit --ntasks=2 ./a",
		"--nonsense ./a":                       "error: filch does not know the option --nonsense",
		"-n":                                   "error: the option -n needs 1 values",
		"--map-by ppr:x:node ./a":              "error: filch does not map by ppr:x:node",
	} {
		words, err := mpiexecWords(strings.Fields(line))
		got := strings.Join(words, " ")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("mpiexec %s\n got %s\nwant %s", line, got, want)
		}
	}
}

// TestMpiexecTimeout has the variable that bounds a run, which an option outranks.
func TestMpiexecTimeout(t *testing.T) {
	for value, want := range map[string]string{
		"":   "--input=0 --time=0:9 --ntasks=2 ./a",
		"90": "--input=0 --time=0:90 --time=0:9 --ntasks=2 ./a",
		"0":  "error",
		"1m": "error",
	} {
		t.Setenv("MPIEXEC_TIMEOUT", value)
		words, err := mpiexecWords(strings.Fields("-timeout 9 -n 2 ./a"))
		got := strings.Join(words, " ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("with %q got %s, want %s", value, got, want)
		}
	}
	t.Setenv("MPIEXEC_TIMEOUT", "90")
	words, err := mpiexecWords([]string{"./a"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := spec.Parse(words)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Request.Policy.TimeLimit; got != 90*time.Second {
		t.Errorf("a time limit of %v, want 90 s", got)
	}
}

func TestSSHWords(t *testing.T) {
	for line, want := range map[string]string{
		"n2 hostname":                          "n2|hostname",
		"-x n2 \"/usr/bin/proxy\" --port h:1":  `n2|"/usr/bin/proxy" --port h:1`,
		"n2 -- exec perl -X -e x":              "n2|exec perl -X -e x",
		"-q -l me -p 22 -o A=b -oC=d you@n2 w": "n2|w",
		"-- n2 w":                              "n2|w",
		"-xn n2 w":                             "n2|w|deaf",
		"-f n2 w":                              "n2|w|deaf",
		"-l nf n2 w":                           "n2|w",
		"-L 1:h:2 n2 w":                        "error",
		"-xR 1:h:2 n2 w":                       "error",
		"n2":                                   "error",
		"":                                     "error",
		"-x":                                   "error",
	} {
		s, err := sshWords(strings.Fields(line))
		got := s.host + "|" + s.command
		if s.deaf {
			got += "|deaf"
		}
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("ssh %s: got %s, want %s", line, got, want)
		}
	}
}

func FuzzShims(f *testing.F) {
	f.Add("-n 2 --mca a b ./a : -n 1 ./b")
	f.Add("-x -l u n2 -- w")
	f.Fuzz(func(_ *testing.T, line string) {
		args := strings.Split(line, " ")
		_, _ = mpiexecWords(args)
		_, _ = sshWords(args)
	})
}
