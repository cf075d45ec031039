package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed programs/initfini.c
var initfini []byte

// ask is what a line of the table of launches wants started.
type ask struct {
	ranks, hosts int
	what         workload
}

func (a ask) String() string { return fmt.Sprintf("%s n=%d hosts=%d", a.what, a.ranks, a.hosts) }

// workload is what the ranks do.
type workload uint8

const (
	plain   workload = iota // true
	mpich                   // MPI_Init and MPI_Finalize, each launcher with the library that it is of
	openMPI                 // the same of Open MPI, through PMIx
)

// flag is how -what calls it.
func (w workload) flag() string { return [...]string{"true", "mpich", "openmpi"}[w] }

func (w workload) String() string {
	return [...]string{"true", "MPI_Init+Finalize", "Open MPI Init+Fin."}[w]
}

// slotsTotal is the room that each launcher is given, on one host or over four.
const slotsTotal = 16

// rival is a launcher, ready to be used on one host and on four.
type rival interface {
	name() string
	command(a ask) command // a nil argv: it cannot do that
	close()
}

// compile makes a program of a source with the compiler that is asked for.
func compile(dir, cc, name string, source []byte, libraries ...string) (string, error) {
	src, out := filepath.Join(dir, name+".c"), filepath.Join(dir, name+"."+filepath.Base(cc))
	if err := os.WriteFile(src, source, 0o644); err != nil {
		return "", err
	}
	if text, err := exec.Command(cc, append([]string{"-O2", "-o", out, src}, libraries...)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", cc, err, text)
	}
	return out, nil
}

// firstOf is the first of the names that is installed.
func firstOf(names ...string) string {
	for _, n := range names {
		if _, err := lookup(n); err == nil {
			return n
		}
	}
	return names[len(names)-1]
}

// ompi is Open MPI's mpirun. It knows one host here: a second needs ssh.
type ompi struct{ program string }

func newOMPI(program string) (*ompi, error) {
	_, err := lookup("mpirun.openmpi")
	return &ompi{program: program}, err
}

func (o *ompi) name() string { return "mpirun" }
func (o *ompi) close()       {}

func (o *ompi) command(a ask) command {
	if a.hosts > 1 || a.what != plain && o.program == "" {
		return command{}
	}
	argv := []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", strconv.Itoa(a.ranks)}
	return command{argv: append(argv, pick(a, o.program)), env: os.Environ()}
}

// ours is filch with two instances up: one launcher, and four.
type ours struct {
	exe           string
	program, open string           // of MPICH; of Open MPI, "" where its compiler is missing
	env           map[int][]string // by the number of launchers
}

func newOurs(b *bench, program, open string) (*ours, error) {
	o := &ours{exe: b.filch, program: program, open: open, env: map[int][]string{}}
	for _, nodes := range []int{1, 4} {
		env, err := o.up(b.scratch, fmt.Sprintf("bench-%d-%d", nodes, os.Getpid()), nodes, slotsTotal/nodes)
		if err != nil {
			o.close()
			return nil, err
		}
		o.env[nodes] = env
	}
	return o, nil
}

// up starts an instance that shares nothing with the user's own.
func (o *ours) up(scratch, instance string, nodes, slots int, more ...string) ([]string, error) {
	dir := filepath.Join(scratch, "i"+strconv.Itoa(nodes)+"x"+strconv.Itoa(slots))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	env := append(os.Environ(), "HOME="+dir, "FILCH_LOCAL="+dir, "FILCH_INSTANCE="+instance)
	cmd := exec.Command(o.exe, append([]string{"up", "--nodes", strconv.Itoa(nodes), "--slots", strconv.Itoa(slots)}, more...)...)
	cmd.Env = env
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("filch up --nodes %d: %w: %s", nodes, err, text)
	}
	raise(instance, func() { o.down(env) })
	return env, nil
}

func (o *ours) down(env []string) {
	for _, v := range env {
		if instance, ok := strings.CutPrefix(v, "FILCH_INSTANCE="); ok {
			lower(instance)
		}
	}
	cmd := exec.Command(o.exe, "down")
	cmd.Env = env
	if text, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: filch down: %v: %s\n", err, text)
	}
}

func (o *ours) name() string { return "filch" }

func (o *ours) close() {
	for _, env := range o.env {
		o.down(env)
	}
}

func (o *ours) command(a ask) command {
	argv := []string{o.exe, "run", "-n", strconv.Itoa(a.ranks)}
	if a.hosts > 1 {
		argv = append(argv, "-N", strconv.Itoa(min(a.hosts, a.ranks)))
	}
	program := o.program
	if a.what == openMPI {
		if program = o.open; program == "" {
			return command{}
		}
	}
	return command{argv: append(argv, pick(a, program)), env: o.env[a.hosts]}
}

// anywhere asks the four launchers for ranks of true on as many of them as there
// is room for.
func (o *ours) anywhere(ranks int) command {
	return command{argv: []string{o.exe, "run", "-n", strconv.Itoa(ranks), "/bin/true"}, env: o.env[4]}
}

// shim is a command of the shims that filch installs, over the four launchers.
func (o *ours) shim(argv ...string) command {
	dir := filepath.Join(filepath.Dir(o.program), "shims")
	if out, err := exec.Command(o.exe, "shim", "install", dir).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: filch shim install: %v: %s\n", err, out)
	}
	return command{argv: append([]string{filepath.Join(dir, argv[0])}, argv[1:]...), env: o.env[4]}
}

// node is what `filch nodes --json` says of one launcher, as far as we read it.
type node struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
}

// nodes lists the launchers of an instance.
func (o *ours) nodes(env []string) ([]node, error) {
	cmd := exec.Command(o.exe, "nodes", "--json")
	cmd.Env = env
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("filch nodes: %w", err)
	}
	var list []node
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("filch nodes --json: %w: %s", err, raw)
	}
	return list, nil
}

// pids are those of all launchers, for the meter.
func (o *ours) pids() []int {
	var pids []int
	for _, env := range o.env {
		list, _ := o.nodes(env)
		for _, n := range list {
			pids = append(pids, n.PID)
		}
	}
	return pids
}
