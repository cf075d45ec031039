package mpi_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
	"github.com/filch-hpc/filch/testbed/mpi"
	"github.com/filch-hpc/filch/testbed/netns"
	"github.com/filch-hpc/filch/testbed/rig"
)

// shelf holds the programs that one library's compiler has made for the tests so far.
type shelf struct {
	cc string

	mu   sync.Mutex // guards what follows
	dir  string
	made map[string]error
}

var programs, openPrograms = &shelf{cc: mpi.MPICH}, &shelf{cc: mpi.OpenMPI}

// examples are the programs of MPICH's that the tests run.
var examples = []string{"cpi", "icpi", "srtest", "hellow"}

// program is the path of a program, which is compiled at its first use.
func (s *shelf) program(t testing.TB, name string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "filch-mpi-")
		if err != nil {
			t.Fatal(err)
		}
		s.dir, s.made = dir, map[string]error{}
	}
	err, known := s.made[name]
	switch {
	case known:
	case slices.Contains(examples, name):
		err = mpi.BuildExamples(s.dir, name)
	default:
		err = mpi.Build(s.dir, s.cc, name)
	}
	s.made[name] = err
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(s.dir, name)
}

// program is the path of a program of MPICH, or of libpmi2.
func program(t testing.TB, name string) string {
	t.Helper()
	return programs.program(t, name)
}

// openProgram is the path of a program of Open MPI.
func openProgram(t testing.TB, name string) string {
	t.Helper()
	return openPrograms.program(t, name)
}

func TestMain(m *testing.M) {
	rig.Main(m, func() {
		for _, s := range []*shelf{programs, openPrograms} {
			if s.dir != "" {
				os.RemoveAll(s.dir)
			}
		}
	})
}

// wires is a small keeper for the engines of all nodes of a job: it starts real
// MPI ranks, on hosts where there are any, and moves bytes. It knows nothing
// of the product but the engine, so that what fails here fails there.
type wires struct {
	t     *testing.T
	where []int32
	hosts []*netns.Host // nil: this machine
	early time.Duration
	env   []string // of the ranks, besides PMI's

	unmapped bool // say nothing about who shares a node

	mu      sync.Mutex // guards what follows
	start   time.Time
	engines []*pmi.Engine
	conns   []*os.File
	timer   *time.Timer
	aborts  []pmi.Abort
	breaks  []pmi.Break
	notes   []string
	procs   []*exec.Cmd
	last    int // the rank whose end ends the others, with stops
	stops   bool
}

func (g *wires) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.procs {
		_ = p.Process.Kill()
	}
}

// outcome is how a rank ended.
type outcome struct {
	code   int // exit code, or 128 and the signal
	output string
	state  pmi.State
}

// run starts one rank for every entry of where and waits for all of them.
func (g *wires) run(limit time.Duration, prog string, args ...string) []outcome {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), limit)
	defer cancel()
	g.open()
	ends := make([]outcome, len(g.where))
	outs := make([]bytes.Buffer, len(g.where))
	var wg sync.WaitGroup
	for r := range g.where {
		cmd, err := g.rank(ctx, r, prog, args...)
		if err == nil {
			cmd.Stdout, cmd.Stderr = &outs[r], &outs[r]
			g.mu.Lock()
			g.procs = append(g.procs, cmd)
			g.mu.Unlock()
			err = cmd.Start()
			_ = cmd.ExtraFiles[0].Close()
		}
		if err != nil {
			g.t.Fatal(err)
		}
		wg.Go(func() { g.serve(r) })
		wg.Go(func() {
			_ = cmd.Wait()
			if g.stops && g.last == r {
				g.kill()
			}
			ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
			ends[r].code = ws.ExitStatus()
			if ws.Signaled() {
				ends[r].code = 128 + int(ws.Signal())
			}
		})
	}
	wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
	for r := range ends {
		ends[r].output = outs[r].String()
		ends[r].state = g.engines[g.where[r]].State(filch.Rank(r))
	}
	if ctx.Err() != nil {
		g.t.Errorf("not done within %v: %+v", limit, ends)
	}
	return ends
}

func (g *wires) open() {
	g.start = time.Now()
	g.conns = make([]*os.File, len(g.where))
	nodes := int32(0)
	for _, n := range g.where {
		nodes = max(nodes, n+1)
	}
	for n := range nodes {
		cfg := pmi.Config{
			Kvsname: fmt.Sprintf("rig.%d.%d", os.Getpid(), g.start.UnixNano()), Size: int32(len(g.where)),
			Mapping: pmi.Mapping(g.where), Early: g.early, Node: n, Nodes: nodes,
		}
		if g.unmapped {
			cfg.Mapping = ""
		}
		for r, at := range g.where {
			if at == n {
				cfg.Local = append(cfg.Local, filch.Rank(r))
			}
		}
		g.engines = append(g.engines, pmi.New(cfg))
	}
}

// rank prepares one process with its end of a connection as descriptor 3.
func (g *wires) rank(ctx context.Context, r int, prog string, args ...string) (*exec.Cmd, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, prog, args...)
	if g.hosts != nil {
		cmd = g.hosts[g.where[r]].Command(ctx, prog, args...)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		return nil, err
	}
	g.conns[r] = os.NewFile(uintptr(fds[0]), "pmi")
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fds[1]), "pmi-rank")}
	cmd.Env = append(os.Environ(), "PMI_FD=3", fmt.Sprintf("PMI_RANK=%d", r), fmt.Sprintf("PMI_SIZE=%d", len(g.where)))
	cmd.Env = append(cmd.Env, g.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// serve reads what one rank says until its end.
func (g *wires) serve(r int) {
	b := make([]byte, pmi.FeedBytes)
	for {
		n, err := g.conns[r].Read(b)
		g.step(g.where[r], func(now time.Duration, e *pmi.Engine, out *pmi.Out) {
			if err != nil {
				e.Closed(now, filch.Rank(r), out)
				return
			}
			e.Feed(now, filch.Rank(r), b[:n], out)
		})
		if err != nil {
			_ = g.conns[r].Close()
			return
		}
	}
}

// step makes one step of a node's engine, and all that follows from it.
func (g *wires) step(node int32, f func(time.Duration, *pmi.Engine, *pmi.Out)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Since(g.start)
	type frame struct {
		from int32
		pmi.PeerFrame
	}
	var frames []frame
	take := func(n int32, out *pmi.Out) {
		for _, w := range out.Writes {
			_, _ = g.conns[w.Rank].Write(w.Data)
		}
		for _, p := range out.Peers {
			frames = append(frames, frame{n, p})
		}
		g.aborts = append(g.aborts, out.Aborts...)
		g.breaks = append(g.breaks, out.Breaks...)
		g.notes = append(g.notes, out.Notes...)
		if len(out.Aborts)+len(out.Breaks) > 0 {
			for _, p := range g.procs {
				_ = p.Process.Kill()
			}
		}
	}
	var out pmi.Out
	f(now, g.engines[node], &out)
	take(node, &out)
	for len(frames) > 0 {
		p := frames[0]
		frames = frames[1:]
		var out pmi.Out
		g.engines[p.To].Peer(now, p.from, p.Body, &out)
		take(p.To, &out)
	}
	next := filch.Never
	for _, e := range g.engines {
		next = min(next, e.Deadline())
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	if next != filch.Never {
		g.timer = time.AfterFunc(max(0, next-now), g.tick)
	}
}

func (g *wires) tick() {
	for n := range g.engines {
		g.step(int32(n), func(now time.Duration, e *pmi.Engine, out *pmi.Out) {
			if e.Deadline() <= now {
				e.Tick(now, out)
			}
		})
	}
}
