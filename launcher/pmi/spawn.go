package pmi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// Spawn asks for new ranks: a rank called MPI_Comm_spawn. The keeper answers by
// [Engine.Spawned] with the same ID.
type Spawn struct {
	ID     uint32
	Rank   filch.Rank
	Apps   []SpawnApp
	Preput []Pair // the pairs that the new ranks find in their key-value set
}

// SpawnApp is a program of a spawn.
type SpawnApp struct {
	Argv  []string
	Ranks int32
	Env   []string // NAME=VALUE, on top of the environment of the job
	Info  []Pair   // of MPI_Info: wdir, path, host and others
}

// Pair is a key with its value.
type Pair struct{ Key, Value string }

// SpawnResult says how a spawn went. Refused, with a reason in a few words, is empty for
// ranks that run.
type SpawnResult struct {
	Refused   string
	Kind      filch.Kind // of the refusal
	Namespace string     // of the new ranks, as the ranks know each other
	Ranks     int32
}

// Limits of a spawn; a spawn above a limit is refused, and the job goes on.
const (
	MaxSpawnRanks = 1 << 20
	maxSpawnApps  = 256
	maxSpawnPairs = 256 // preputs, or infos of a program
)

// spawning is a spawn of a rank, being received or waiting for its result.
type spawning struct {
	req   Spawn
	total int    // programs to come in all
	bytes int    // of all blocks
	bad   string // the reason why the spawn is refused after its last block
	open  bool   // the result is due
	thrid string // PMI-2
}

// block is an mcmd being received: a program of a spawn. A spawn of several programs comes
// as a block for each, and expects a single answer after the last block.
type block struct {
	open  bool
	cmd   string
	bytes int
	lines []Pair
}

// add takes a line; done means a complete block.
func (b *block) add(s string) (done bool) {
	if s == "endcmd" {
		b.open = false
		return true
	}
	key, val, _ := strings.Cut(s, "=")
	b.lines = append(b.lines, Pair{strings.Clone(key), strings.Clone(val)})
	return false
}

// fields are the lines of a block by their keys.
type fields map[string]string

// number reads a count from least to most.
func (f fields) number(key string, least, most int) (int, bool) {
	n, err := strconv.Atoi(f[key])
	return n, err == nil && n >= least && n <= most
}

// pairs reads the numbered pairs key_0, val_0 and so on.
func (f fields) pairs(count, key, val string) (all []Pair, ok bool) {
	if f[count] == "" {
		return nil, true
	}
	n, ok := f.number(count, 0, maxSpawnPairs)
	for i := 0; ok && i < n; i++ {
		no := strconv.Itoa(i)
		k, has := f[key+no]
		all, ok = append(all, Pair{k, f[val+no]}), has && k != ""
	}
	return all, ok
}

// readBlock reads a program of a spawn, the pairs for the new ranks, and the place of the
// program among the programs of the spawn. bad is a word for the error.
func readBlock(lines []Pair) (app SpawnApp, preput []Pair, sofar, total int, bad string) {
	f := fields{}
	for _, l := range lines {
		f[l.Key] = l.Value
	}
	var ok bool
	if sofar, ok = f.number("spawnssofar", 1, maxSpawnApps); !ok {
		return app, nil, 1, 1, "bad_spawnssofar"
	}
	if total, ok = f.number("totspawns", sofar, maxSpawnApps); !ok {
		return app, nil, 1, 1, "bad_totspawns"
	}
	n, ok := f.number("nprocs", 1, MaxSpawnRanks)
	if !ok {
		return app, nil, sofar, total, "bad_nprocs"
	}
	app.Ranks = int32(n)
	if app.Argv = []string{f["execname"]}; app.Argv[0] == "" {
		return app, nil, sofar, total, "bad_execname"
	}
	if f["argcnt"] != "" {
		if n, ok = f.number("argcnt", 0, maxBlock); !ok {
			return app, nil, sofar, total, "bad_argcnt"
		}
		for i := 1; i <= n; i++ {
			arg, has := f["arg"+strconv.Itoa(i)]
			if !has {
				return app, nil, sofar, total, "bad_argcnt"
			}
			app.Argv = append(app.Argv, arg)
		}
	}
	if preput, ok = f.pairs("preput_num", "preput_key_", "preput_val_"); !ok {
		return app, nil, sofar, total, "bad_preput"
	}
	if app.Info, ok = f.pairs("info_num", "info_key_", "info_val_"); !ok {
		return app, nil, sofar, total, "bad_info"
	}
	return app, preput, sofar, total, ""
}

// takeBlock takes the next program of a spawn, and reports whether the spawn is complete.
// tooLong ends the job.
func (c *client) takeBlock(b block) (whole, tooLong bool) {
	app, preput, sofar, total, bad := readBlock(b.lines)
	s := &c.spawn
	switch {
	case bad != "" && s.bad == "":
		s.bad = bad
	case sofar != len(s.req.Apps)+1 && s.bad == "", s.total != 0 && total != s.total && s.bad == "":
		s.bad = "bad_spawnssofar"
	}
	s.req.Apps = append(s.req.Apps, app)
	if len(s.req.Apps) == 1 {
		s.req.Preput = preput // each block repeats the pairs
	}
	s.total = total
	s.bytes += b.bytes
	return sofar >= total, sofar < total && s.bytes > maxBlock
}

// spawn passes a complete spawn on, or refuses it.
func (e *Engine) spawn(c *client, out *Out) {
	s := &c.spawn
	ranks := 0
	for _, a := range s.req.Apps {
		ranks += int(a.Ranks)
	}
	if s.bad == "" && ranks > MaxSpawnRanks {
		s.bad = "too_many_ranks"
	}
	if s.bad == "" {
		for _, p := range s.req.Preput {
			if len(p.Key) > maxKey || len(p.Value) > maxValue {
				s.bad = "preput_too_long"
			}
		}
	}
	if s.bad != "" {
		c.spawnAnswer(SpawnResult{Refused: s.bad}, out)
		return
	}
	e.asks++
	s.req.ID, s.req.Rank, s.open = e.asks, c.rank, true
	c.due++
	out.Spawns = append(out.Spawns, s.req)
}

// Spawned answers the spawn with this id.
func (e *Engine) Spawned(id uint32, res SpawnResult, out *Out) {
	i := slices.IndexFunc(e.ranks, func(c client) bool { return c.spawn.open && c.spawn.req.ID == id })
	if i < 0 {
		return
	}
	c := &e.ranks[i]
	c.due--
	if c.gone || c.state != Inited {
		c.spawn = spawning{}
		return
	}
	c.spawnAnswer(res, out)
}

// spawnAnswer answers c in its protocol.
func (c *client) spawnAnswer(res SpawnResult, out *Out) {
	thrid := c.spawn.thrid
	c.spawn = spawning{}
	switch {
	case c.v2 && res.Refused != "":
		out.write(c.rank, reply2("spawn", thrid, attr{"rc", "1"}, attr{"errmsg", clip(res.Refused)}, attr{"nerrs", "0"}))
	case c.v2:
		out.write(c.rank, reply2("spawn", thrid, attr{"rc", "0"}, attr{"jobid", res.Namespace}, attr{"nerrs", "0"}))
	case res.Refused != "":
		out.write(c.rank, "cmd=spawn_result rc=-1 msg="+strings.ReplaceAll(clip(res.Refused), " ", "_")+"\n")
	default:
		// Without errcodes, as hydra answers: all processes were started.
		out.write(c.rank, "cmd=spawn_result rc=0\n")
	}
}

// readSpawn2 reads the programs of a PMI-2 spawn, each from its subcmd on, and the pairs for
// the new ranks.
func readSpawn2(l line) (apps []SpawnApp, preput []Pair, bad string) {
	var key string // of the pair whose value comes next
	for _, a := range l.attrs {
		var app *SpawnApp
		if len(apps) > 0 {
			app = &apps[len(apps)-1]
		}
		name := strings.TrimRight(a.key, "0123456789")
		switch {
		case a.key == "subcmd":
			apps = append(apps, SpawnApp{Argv: []string{strings.Clone(a.val)}})
		case name == "ppkey", name == "infokey":
			key = strings.Clone(a.val)
		case name == "ppval":
			preput = append(preput, Pair{key, strings.Clone(a.val)})
		case app == nil:
		case a.key == "maxprocs":
			n, err := strconv.Atoi(a.val)
			if err != nil || n < 1 || n > MaxSpawnRanks {
				return nil, nil, "bad maxprocs"
			}
			app.Ranks = int32(n)
		case name == "argv":
			app.Argv = append(app.Argv, strings.Clone(a.val))
		case name == "infoval":
			app.Info = append(app.Info, Pair{key, strings.Clone(a.val)})
		}
	}
	if n := l.val("ncmds"); n != strconv.Itoa(len(apps)) || len(apps) == 0 {
		return nil, nil, "bad ncmds"
	}
	for _, a := range apps {
		if a.Ranks == 0 || a.Argv[0] == "" {
			return nil, nil, "a program without a name or ranks"
		}
	}
	return apps, preput, ""
}
