package pool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

// Limits of a pool.
const (
	MostPools  = 16   // of an instance
	MostAllocs = 500  // of a pool, queued and running
	MostArgs   = 64   // of the batch system, of a pool
	MostText   = 4096 // bytes of all these arguments
	keptEnds   = 8    // ended allocations that the record remembers
	clipText   = 200  // bytes of a message of the batch system
)

// NamesKey is the key of the record with the names of all pools of an instance, a list.
const NamesKey = "pool-names"

// Key is the key of the record of a pool.
func Key(name string) string { return "pool/" + name }

// format is the version of the record's encoding.
const format = 1

// Spec is what filch pool add says.
type Spec struct {
	Name    string        `json:"name"`
	System  string        `json:"system"`        // slurm, pbs or hooks
	Args    []string      `json:"args"`          // for sbatch or qsub, or the commands of the hooks
	Program string        `json:"program"`       // filch, as nodes of the batch system find it
	Via     string        `json:"via,omitempty"` // the host where the commands run, over ssh
	Max     int           `json:"max"`           // allocations at a time
	Min     int           `json:"min"`
	Idle    time.Duration `json:"idle"`                 // an allocation without work for so long is given back
	Within  time.Duration `json:"within"`               // the time in which the queued work should be done
	Each    int32         `json:"slots_each,omitempty"` // slots of an allocation, as the user or the batch system says; 0 unknown
	Grow    int64         `json:"grow"`                 // tasks by which the queue grows between two looks: allocations are asked for at once
}

// State is the state of an allocation.
type State string

// The states of an allocation, in their order.
const (
	Planned State = "planned" // the record names the submission, the batch system may have it
	Queued  State = "queued"  // the batch system has a number for it
	Started State = "started" // the batch job runs, no node has joined
	Joined  State = "joined"  // nodes of it are members
	Ending  State = "ending"  // its nodes drain; the batch job ends when nothing runs there
	Ended   State = "ended"
)

// Alloc is one allocation that a pool asked for. Times are Unix times in nanoseconds by the
// clock of the holder that wrote them, 0 before.
type Alloc struct {
	N       int64   `json:"n"` // the number in the pool, from 1
	State   State   `json:"state"`
	Group   string  `json:"group,omitempty"` // the allocation as its nodes name it, once it has said so
	Job     string  `json:"job,omitempty"`   // the number that the batch system gave
	Said    string  `json:"said,omitempty"`  // why the batch system lets it wait, or how it ended
	Held    bool    `json:"held,omitempty"`  // in the queue, and does not start before a person acts
	Planned int64   `json:"planned"`
	Began   int64   `json:"began,omitempty"`
	Joined  int64   `json:"joined,omitempty"`
	Ending  int64   `json:"ending,omitempty"`
	Over    int64   `json:"over,omitempty"`
	Nodes   int     `json:"nodes,omitempty"`   // most that were members at a time
	Slots   int32   `json:"slots,omitempty"`   // of these
	Worked  float64 `json:"worked,omitempty"`  // seconds of nodes with work
	Done    int64   `json:"done,omitempty"`    // attempts of tasks that ended there
	Granted float64 `json:"granted,omitempty"` // seconds of nodes since the start
	Asked   float64 `json:"asked,omitempty"`   // seconds of nodes in the request: the nodes times the time limit; 0 unknown
}

// useful tells whether an allocation did what it was asked for: a task ended there, or its
// nodes worked for a while. Tasks that end every node within seconds do no such thing.
func (a *Alloc) useful() bool {
	return a.Done > 0 || a.Worked >= diedWithin.Seconds() || a.Worked > 0 && mutantBusyUseful
}

// Totals sums up the allocations of a pool, in node-seconds.
type Totals struct {
	Submitted int64   `json:"submitted"` // allocations
	Failed    int64   `json:"failed"`    // of these, and of those that were refused
	Asked     float64 `json:"asked"`
	Granted   float64 `json:"granted"`
	Worked    float64 `json:"worked"`
	Idle      float64 `json:"idle"`
}

// Cost sums up all allocations, also those without an end.
func (p *Pool) Cost() Totals {
	sum := p.Totals
	for i := range p.Allocs {
		sum.add(&p.Allocs[i])
	}
	return sum
}

func (s *Totals) add(a *Alloc) {
	s.Asked += a.Asked
	s.Granted += a.Granted
	s.Worked += a.Worked
	s.Idle += a.Granted - a.Worked
}

// Pool is the record of a pool.
type Pool struct {
	Format int `json:"format"`
	Spec
	Holder  filch.NodeName `json:"holder"`
	Beat    int64          `json:"beat"` // counts the looks of holders
	Next    int64          `json:"next"` // the number of the next allocation
	Allocs  []Alloc        `json:"allocs"`
	Ends    []Alloc        `json:"ends,omitempty"`    // the last that ended
	Paused  string         `json:"paused,omitempty"`  // why nothing is asked for
	Removed bool           `json:"removed,omitempty"` // filch pool rm: ends with its last allocation
	Bad     int            `json:"bad,omitempty"`     // submissions and allocations in a row that failed
	After   int64          `json:"after,omitempty"`   // no submission before this time
	Trouble string         `json:"trouble,omitempty"` // the last failure
	Silent  string         `json:"silent,omitempty"`  // why the batch system could not be asked the last time
	Large   string         `json:"large,omitempty"`   // a gang that waits, and does not fit into the pool
	Said    string         `json:"said,omitempty"`    // what the holder decided last, and why
	Delay   time.Duration  `json:"delay,omitempty"`   // from a submission to the first node, of the last that came
	Totals  Totals         `json:"totals"`
}

// has tells whether a node is of the allocation.
func (p *Pool) has(a *Alloc, n *Node) bool {
	if n.Group == "" || a.Job == "" && a.Group == "" {
		return false
	}
	return n.Group == cmp.Or(a.Group, p.System+"-"+a.Job)
}

// New makes the record of a pool. The error says which part of the spec is wrong.
func New(s Spec) (*Pool, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return &Pool{Format: format, Spec: s, Next: 1, Allocs: []Alloc{}}, nil
}

// Gone tells whether the pool was removed, and its last allocation has ended.
func (p *Pool) Gone() bool { return p.Removed && len(p.Allocs) == 0 }

// Resume lets a paused pool ask again, at once.
func (p *Pool) Resume() {
	p.Paused, p.Bad, p.After = "", 0, 0
	p.Beat++
}

func (s *Spec) check() error {
	bad := func(form string, args ...any) error {
		return filch.Errorf(filch.Invalid, "cannot make the pool %s: "+form, append([]any{strconv.Quote(s.Name)}, args...)...)
	}
	size := 0
	for _, a := range s.Args {
		size += len(a)
		if strings.ContainsAny(a, "\n\x00") {
			return bad("an argument of the batch system has a line end or a zero byte")
		}
	}
	switch {
	case !nameOK(s.Name):
		return bad("--name has 1 to 32 letters, digits, - and _")
	case s.Max < 1 || s.Max > MostAllocs:
		return bad("--max is %d, and takes 1 to %d allocations", s.Max, MostAllocs)
	case s.Each < 0 || s.Each > 1<<20:
		return bad("--slots is %d, and takes 1 to %d", s.Each, 1<<20)
	case s.Min < 0 || s.Min > s.Max:
		return bad("--min is %d, and takes 0 to --max (%d)", s.Min, s.Max)
	case s.Idle < time.Second || s.Idle > 24*time.Hour:
		return bad("--idle is %s, and takes 1s to 24h", s.Idle)
	case s.Within < time.Second || s.Within > 30*24*time.Hour:
		return bad("--within is %s, and takes 1s to 30 days", s.Within)
	case len(s.Args) > MostArgs || size > MostText:
		return bad("%d arguments of %d bytes for the batch system, at most %d of %d bytes", len(s.Args), size, MostArgs, MostText)
	}
	return nil
}

func nameOK(s string) bool {
	if s == "" || len(s) > 32 {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == "" && s[0] != '-'
}

// Alloc returns allocation n; nil: the pool has none of the number, or it has ended.
func (p *Pool) Alloc(n int64) *Alloc {
	i := slices.IndexFunc(p.Allocs, func(a Alloc) bool { return a.N == n })
	if i < 0 {
		return nil
	}
	return &p.Allocs[i]
}

// Encode writes the record.
func (p *Pool) Encode() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // no field can fail
	}
	return b
}

// Decode reads a record. A record of a newer filch, or one that breaks a limit, is an error.
func Decode(b []byte) (*Pool, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	p := &Pool{}
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("cannot read the record of a pool: %w", err)
	}
	if p.Format != format {
		return nil, fmt.Errorf("cannot read the record of a pool: its format is %d, this filch knows %d", p.Format, format)
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if len(p.Allocs) > MostAllocs || len(p.Ends) > keptEnds {
		return nil, fmt.Errorf("cannot read the record of a pool: %d allocations and %d ended ones", len(p.Allocs), len(p.Ends))
	}
	return p, nil
}

// JobName is the name of the batch job of allocation n. Only one batch job at a time has
// the name.
func JobName(instance, pool string, n int64) string {
	return "filch-" + instance + "-" + pool + "-" + strconv.FormatInt(n, 10)
}

func clip(s string) string {
	if len(s) > clipText {
		s = strings.ToValidUTF8(s[:clipText], "") + "…"
	}
	return s
}
