package keeper

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/pmi"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
)

// spawnWaitName is the variable with the longest time that a spawn waits for slots, as in
// 90s; spawnWait is the time without the variable.
const (
	spawnWaitName = "FILCH_SPAWN_WAIT"
	spawnWait     = time.Minute
)

// request describes the new ranks as a run, which takes its environment, limits and
// room for each rank from the run whose rank calls.
func (s *spawns) request(ask pmi.Spawn) (*launcher.Request, *filch.Error) {
	j := s.job
	l := &j.order.Launch
	order := j.what
	order.Programs = nil
	order.Pty, order.Task, order.Files = nil, nil, nil
	order.IO = launcher.IO{StdinMode: launcher.StdinNone, OutRank: -1, ErrRank: -1, Unbuffered: j.what.IO.Unbuffered}
	if order.MPI = "pmi1"; j.mpi.pmix != nil {
		order.MPI = mpiPMIx
	}
	order.Spawn = &launcher.SpawnOrder{Parent: l.Ident, Rank: ask.Rank, Top: l.Ident, Hub: l.Nodes[0].Node}
	if up := j.what.Spawn; up != nil {
		order.Spawn.Top, order.Spawn.Hub = up.Top, up.Hub
	}
	for _, p := range ask.Preput {
		order.Spawn.Preput = append(order.Spawn.Preput, [2]string{p.Key, p.Value})
	}
	r := &launcher.Request{
		Name: filepath.Base(ask.Apps[0].Argv[0]), Spawner: l.Ident.Job, Inside: launcher.Inside{Job: l.Ident.Job},
		Parent: l.Parent, Task: l.Task,
		Policy: launcher.Policy{KillOnBad: true, KillWait: min(l.KillWait, spawnKillWait)},
	}
	r.Shape.PerRank = l.Each
	var err *filch.Error
	if r.Patient, err = s.patience(); err != nil {
		return nil, err
	}
	first := int32(0)
	for i, a := range ask.Apps {
		p := launcher.Program{Argv: a.Argv, Ranks: []launcher.Span{{First: filch.Rank(first), Count: a.Ranks}}, Env: s.env(ask.Rank, a.Env)}
		if err := spawnInfo(&p, &r.Shape, order.Spawn, order.Cwd, i, a.Info); err != nil {
			return nil, err
		}
		order.Programs = append(order.Programs, p)
		first += a.Ranks
	}
	r.Shape.Ranks = first
	if n := int(first); len(r.Shape.Only) > n {
		r.Shape.Only = r.Shape.Only[:n] // each node of the list is used
	}
	body, e := wire.Marshal(&order)
	if e != nil || len(body) > launcher.MaxOrderBytes {
		return nil, filch.Errorf(filch.Invalid, "arguments and environment take %d bytes, the most is %d", len(body), launcher.MaxOrderBytes)
	}
	r.Order = body
	return r, nil
}

// patience is how long the new ranks may wait for their slots.
func (s *spawns) patience() (time.Duration, *filch.Error) {
	text, given := proc.LookupEnv(s.job.what.Env, spawnWaitName)
	if !given || text == "" {
		return spawnWait, nil
	}
	d, err := time.ParseDuration(text)
	if n, e := strconv.Atoi(text); e == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d <= 0 || d > 365*24*time.Hour {
		return 0, filch.Errorf(filch.Invalid, "%s=%s is no time", spawnWaitName, text).WithHint("as in %s=90s", spawnWaitName)
	}
	return d, nil
}

// env is the environment that a rank gives its new ranks, without the variables that
// this keeper gave the rank.
func (s *spawns) env(by filch.Rank, env []string) []string {
	j := s.job
	ours := map[string]bool{}
	for _, r := range j.ranks {
		if r.id != by {
			continue
		}
		base := j.programEnv(r.program)
		for _, e := range j.mpi.env(r) {
			ours[e] = true
		}
		for _, e := range base {
			delete(ours, e)
		}
	}
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool { return ours[e] })
}

// spawnInfo applies the keys of MPI_Info that users give: wdir, path, host and add-host, and
// Open MPI's npernode, ppr, map_by and ompi_non_mpi. By MPI's rule other keys mean nothing.
func spawnInfo(p *launcher.Program, s *launcher.Shape, order *launcher.SpawnOrder, cwd string, app int, info []pmi.Pair) *filch.Error {
	var hosts []filch.NodeName
	for _, i := range info {
		switch i.Key {
		case "wdir", "pmix.wdir":
			p.Cwd = i.Value
			if p.Cwd != "" && !filepath.IsAbs(p.Cwd) {
				p.Cwd = filepath.Join(cwd, p.Cwd)
			}
		case "path":
			p.Path = i.Value
		case "host", "hosts", "add-host", "pmix.host", "pmix.addhost":
			for h := range strings.SplitSeq(i.Value, ",") {
				h, _, _ = strings.Cut(strings.TrimSpace(h), ":")
				if name := filch.NodeName(h); h != "" && !slices.Contains(hosts, name) {
					hosts = append(hosts, name)
				}
			}
		case "pmix.ppr":
			n, what, _ := strings.Cut(i.Value, ":")
			if per, err := strconv.Atoi(n); err == nil && per > 0 && per <= launcher.MaxRanks && strings.HasPrefix(what, "n") {
				s.PerNode = int32(per)
			}
		case "pmix.mapby":
			if strings.HasPrefix(i.Value, "node") {
				s.Layout = launcher.LayoutCyclic
			}
		case "pmix.nonpmi":
			order.NoMPI = true
		case "hostfile", "add-hostfile", "pmix.hostfile", "pmix.addhostfile":
			return filch.Errorf(filch.Invalid, "a spawn takes no hostfile").WithHint("the info key host names the nodes: host=n1,n2")
		}
	}
	if app == 0 {
		s.Only = hosts
	} else if !slices.Equal(s.Only, hosts) {
		return filch.Errorf(filch.Invalid, "the programs of one spawn are on different hosts").WithHint("give each program the same info key host, or spawn each by itself")
	}
	return nil
}
