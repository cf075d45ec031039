package spec_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
)

var environment = spec.Context{
	Env: []string{"HOME=/h"},
	Cwd: "/work",
	ReadFile: func(path string) (string, error) {
		switch path {
		case "./hosts":
			return "n1\nn[2-3]\n", nil
		case "prog":
			return "0-1 a\n4,2-3 b\n", nil
		}
		return "", os.ErrNotExist
	},
}

func read(t *testing.T, line string) (*spec.Run, []string) {
	t.Helper()
	r, err := spec.Parse(strings.Fields(line))
	if err != nil {
		t.Fatalf("Parse(%q): %v", line, err)
	}
	warnings, err := r.Finish(environment)
	if err != nil {
		t.Fatalf("Finish(%q): %v", line, err)
	}
	return r, warnings
}

func TestShape(t *testing.T) {
	for line, want := range map[string]string{
		"a":                                   "-n 1",
		"-n 4 a":                              "-n 4",
		"-n4 a -n 5":                          "-n 4",
		"-N 2 a":                              "-n 2 -N 2",
		"-N2-4 a":                             "-N 2-4",
		"-N2-4 -n 3 a":                        "-n 3 -N 2-3",
		"-N 2 --ntasks-per-node 3 a":          "-n 6 -N 2 --ntasks-per-node=3",
		"--ntasks-per-node=3 a":               "-n 3 -N 1 --ntasks-per-node=3",
		"-n 6 --ntasks-per-node 4 a":          "-n 6 --ntasks-per-node=4",
		"-n1 -N2 a":                           "-n 1 -N 1",
		"-w n[1-3] a":                         "-n 3 -N 3 -w n[1-3]",
		"-w ./hosts -n 6 a":                   "-n 6 -N 3 -w n[1-3]",
		"-w n[1-3] -n 2 a":                    "-n 2 -N 2 -w n[1-2]",
		"-x n7,n8 -c 2 -m cyclic a":           "-n 1 -c 2 -m cyclic -x n[7-8]",
		"--exclusive -O -n 2 a":               "-n 2 --exclusive -O",
		"-n 4 -N 2 --mem 1G a":                "-n 4 -N 2 --mem-per-cpu=512M",
		"-n 4 --ntasks-per-node=2 --mem 1G a": "-n 4 --ntasks-per-node=2 --mem-per-cpu=512M",
		"-n 4 --mem 1G a":                     "-n 4 --mem-per-cpu=256M",
		"-n 4 -c 2 --mem-per-cpu 1G a":        "-n 4 -c 2 --mem-per-cpu=1G",
		"--gpus-per-task=a100:2 a":            "-n 1 --gpus-per-task=2 -C 'a100'",
		"-n 3 a : -n 2 b : c":                 "-n 6",
		"--multi-prog prog x":                 "-n 5",
		"--nodel n1 a":                        "-n 1 -N 1 -w n1",
	} {
		r, _ := read(t, line)
		if got := spec.FormatShape(r.Request.Shape); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestPrograms(t *testing.T) {
	for line, want := range map[string]string{
		"-n 3 a b":                               "0-2:a b",
		"-n 3 a : -n 2 --export ALL,X=1 b c : d": "0-2:a|3-4:b c X=1|5:d",
		"--multi-prog prog x":                    "0-1:a x|2-4:b x",
		"-N 2-4 --ntasks-per-node=2 a":           "0-7:a",
		"-n1 -- a":                               "0:a",
	} {
		r, _ := read(t, line)
		var got []string
		for _, p := range r.Order.Programs {
			got = append(got, strings.TrimSpace(spec.FormatRanks(p.Ranks)+":"+strings.Join(p.Argv, " ")+" "+strings.Join(p.Env, " ")))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s: got %q, want %q", line, strings.Join(got, "|"), want)
		}
	}
}

func TestWarnings(t *testing.T) {
	_, warnings := read(t, "-n1 -N2 a")
	if got, want := strings.Join(warnings, "|"), "can't run 1 processes on 2 nodes, setting nnodes to 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPolicyAndIO(t *testing.T) {
	r, _ := read(t, "-K0 -W 5 -t 1:30 --signal USR1@10 --kill-wait 0.5 -k --requeue -I3 -D sub -J job a")
	p := r.Request.Policy
	if p.KillOnBad || p.WaitFirst != 5*time.Second || p.TimeLimit != 90*time.Second || p.WarnSig != 10 || p.WarnTime != 10*time.Second ||
		p.KillWait != time.Second/2 || !p.NoKill || !p.Requeue || r.Request.Patient != 3*time.Second || r.Request.Name != "job" || r.Order.Cwd != "/work/sub" {
		t.Errorf("got %+v %v %s %s", p, r.Request.Patient, r.Request.Name, r.Order.Cwd)
	}
	r, _ = read(t, "-lK -I -k /bin/a")
	if p := r.Request.Policy; !p.KillOnBad || !p.NoKill || r.Request.Patient != time.Second || !r.Order.IO.Label || r.Request.Name != "a" || p.KillWait != spec.KillWaitDefault {
		t.Errorf("defaults of optional values: got %+v %+v", p, r.Request)
	}
	for line, want := range map[string]string{
		"a":                        "in 0 0 '' out '' -1 err '' -1",
		"-i none -o none a":        "in 1 0 '' out 'none' -1 err '' -1",
		"-n 4 -i 3 -o 1 a":         "in 2 3 '' out '' 1 err '' 1",
		"-i in.%t -o f.%4t -e e a": "in 3 0 'in.%t' out 'f.%4t' -1 err 'all' -1",
		"-i f -o f.%j -e %N a":     "in 0 0 '' out '' -1 err '%N' -1",
		"-o f.%t -e all a":         "in 0 0 '' out 'f.%t' -1 err 'all' -1",
		"-o \\f.%t a":              "in 0 0 '' out '' -1 err '' -1",
		"--pty a":                  "in 2 0 '' out '' 0 err '' 0",
	} {
		r, _ := read(t, line)
		io := r.Order.IO
		got := fmt.Sprintf("in %d %d '%s' out '%s' %d err '%s' %d", io.StdinMode, io.StdinRank, io.Stdin, io.Stdout, io.OutRank, io.Stderr, io.ErrRank)
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

// Nonsense is refused in one clean line, of kind Invalid.
func TestNonsense(t *testing.T) {
	for line, want := range map[string]string{
		"":                                "no command to run",
		"-n":                              "option -n (--ntasks) needs a value: N",
		"-n 0 a":                          `--ntasks: "0" is not a positive count`,
		"-n -1 a":                         `--ntasks: "-1" is not a count`,
		"-n x a":                          `--ntasks: "x" is not a count`,
		"-n 2m a":                         "--ntasks: 2097152 ranks, 1048576 at most",
		"-N 4-2 a":                        `--nodes: node count "4-2": the maximum 2 is below the minimum 4`,
		"-c 0 a":                          `--cpus-per-task: "0" is not a positive count`,
		"-t x a":                          `--time: "x" is not a time`,
		"-K2 a":                           `--kill-on-bad-exit: "2" is not 0 or 1`,
		"-Z a":                            `unknown option "-Z"`,
		"--ntask 3 a":                     "option --ntask is ambiguous",
		"--ntusks 3 a":                    "unknown option --ntusks",
		"--label=1 a":                     "option --label takes no value",
		"-o":                              "option -o (--output) needs a value: WHERE",
		"--mem 1.5G a":                    `--mem: "1.5G" is not a memory size`,
		"--pty -l a":                      "--pty and --label exclude each other",
		"-n 2 a : -N 2 b":                 "--nodes may stand only before the first command of an `a : b` run",
		"-n 2 a :":                        "no command to run",
		"--mpi foo a":                     `--mpi: "foo" is not one of auto, pmi1, pmi2, pmix, none`,
		"-w n1 -x n[1-2] a":               "node n1 is both asked for (-w) and excluded (-x)",
		"-w n[1-3] -N 2 a":                "-w names 3 nodes, and -N asks for at most 2",
		"-w n[1-2] -N 3 a":                "-N asks for 3 nodes, and -w names only 2",
		"-w /nofile a":                    `--nodelist: cannot read the file "/nofile": file does not exist`,
		"-w n[1-99999999] a":              `--nodelist: node list "n[1-99999999]" names more than 65536 nodes`,
		"-n 9 -N 2 --ntasks-per-node=2 a": "9 ranks do not fit on 2 nodes with at most 2 on each",
		"--multi-prog nofile":             `cannot read the program file "nofile": file does not exist`,
		"--json a":                        "--json needs --detach or --dry-run",
		"--cpu-bind x a":                  `--cpu-bind: "x" is no way to bind ranks to CPUs`,
		"--exclusive=user a":              "option --exclusive takes no value",
		"--open-mode x a":                 `--open-mode: "x" is not append or truncate`,
		"-n 3 -o 7 a":                     "-o: there is no rank 7, the last rank is 2",
		"-n 3 --detach -o 3 a":            "-o: there is no rank 3, the last rank is 2",
		"-e 1 a":                          "-e: there is no rank 1, the last rank is 0",
		"-N 2 -i 2 a":                     "-i: there is no rank 2, the last rank is 1",
		"-o 2 a : -n 2 b":                 "",
		"-n 3 -o 2 -e 0 -i 02 a":          "",
		"-o ./7 a":                        "",
		"-I x a":                          "",
		"-Ix a":                           `--immediate: "x" is not a time`,
	} {
		r, err := spec.Parse(strings.Fields(line))
		if err == nil {
			_, err = r.Finish(environment)
		}
		if want == "" {
			if err != nil {
				t.Errorf("%q: got %v, want no error", line, err)
			}
			continue
		}
		var told *filch.Error
		if !errors.As(err, &told) || told.Kind != filch.Invalid || told.Text != want {
			t.Errorf("%q\n got %v\nwant %s", line, err, want)
		}
	}
}

// The option of mpiexec for the number of ranks leads to that of filch.
func TestHintOfMpiexecsOption(t *testing.T) {
	for _, line := range []string{"--np 4 a", "--np=4 a"} {
		_, err := spec.Parse(strings.Fields(line))
		var told *filch.Error
		if !errors.As(err, &told) || told.Text != "unknown option --np" || told.Hint != "did you mean -n?" {
			t.Errorf("%q: got %v, want the hint -n", line, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-n 4 -lK1 --time=1:00 a : -n 2 b")
	f.Add("--multi-prog -N2-4 prog")
	f.Fuzz(func(t *testing.T, line string) {
		r, err := spec.Parse(strings.Split(line, " "))
		if err == nil && !r.Client.Help && !r.Client.MPIList {
			_, err = r.Finish(environment)
			if s := r.Request.Shape; err == nil && (s.Ranks < 0 || s.Ranks > launcher.MaxRanks || s.MinNodes > s.MaxNodes || s.PerRank.MemBytes < 0) {
				t.Fatalf("%q gives %+v", line, s)
			}
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\x1b\x00") {
			t.Fatalf("%q: not one clean line: %q", line, err)
		}
	})
}

// SLURM_NTASKS has at most as many ranks as a run may have: a product of large numbers does
// not wrap around.
func TestSlurmRanksOfLargeNumbers(t *testing.T) {
	for line, want := range map[string]int32{
		"-N 2-4 --ntasks-per-node=3 a":             6,
		"-N 65537-65538 --ntasks-per-node=65537 a": launcher.MaxRanks,
	} {
		r, _ := read(t, line)
		if got := r.SlurmOptions().Ranks; got != want {
			t.Errorf("%s: got %d ranks, want %d", line, got, want)
		}
	}
}
