package record

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Spec is the common properties of a job's tasks.
type Spec struct {
	Body       []byte     // the program to run, opaque here: the launcher's own template
	Each       filch.Room // the room of each task
	Cap        int32      // bound of the running tasks in the whole instance; 0 no limit
	Retries    int32      // after an end that is not ok
	CrashLimit uint8      // committed starts that may die with their node; 0 is [CrashLimit]
	Sure       bool       // the first start of each task is committed too
	Once       bool       // started at most once
	Firm       bool       // no task is stopped for a gang, and started again
	Replicas   uint8      // copies that a slow task may have beside itself, in all
	OnFail     FailMode
	Payloads   bool // each task has a line of its own
	Limits     bool // a line may have a limit of its own, in place of Limit
	First      int32
	Step       int32  // the number of task i is First+i*Step; 0 is 1
	Picks      []Pick // or the i-th of these
	// Again are the names of the tasks of a job that runs tasks of another job again: the
	// i-th task has the i-th of these names, and with the name the number, as in the job
	// before. Empty: a task's index is its name.
	Again []Pick
	Limit time.Duration // of an attempt; the spawner enforces the limit
	Like  string        // kind of the tasks: a name, or a command line; "" none
	// Expect is the duration of earlier tasks of the same kind, used while no task of
	// this job has ended; 0 not known.
	Expect  time.Duration
	Retry   *Retry       // nil: any failure is retried, without a delay
	Nodes   *filch.Nodes // where tasks may run; nil: on every node
	License License
	// Needs are what tasks take that do not take Each on Nodes as a Gang: a payload names
	// one of these by its number, from 1.
	Needs []Need
	Gang  Gang
}

// Gang is the size of a task that is a gang: ranks on one or more nodes that start together
// or not at all. Then Each is the room of a rank. Without ranks, the task is one process
// on one node.
type Gang struct {
	Ranks    int32
	Nodes    int32 // the least number of nodes; 0 and 1: one node suffices
	Most     int32 // the greatest number of nodes; 0 no bound
	PerNode  int32 // the most ranks on a node; 0 no bound
	NodeGPUs int32 // of each node, for all ranks there; thousandths
	Spare    int32 // further nodes, held for the ranks of lost nodes
}

// Need is what a task takes, and where the task may run.
type Need struct {
	Each    filch.Room
	Nodes   *filch.Nodes // nil: on every node
	Gang    Gang
	License int32 // of the job's [Spec.License]: the whole task, all ranks of a gang together
}

// Room is the room of the task, of all ranks of a gang together.
func (n *Need) Room() filch.Room {
	if n.Gang.Ranks > 0 {
		return n.Each.Times(n.Gang.Ranks)
	}
	return n.Each
}

// MaxNeeds bounds the different needs of a job's tasks: nodes compare each with a node
// that asks for tasks.
const MaxNeeds = 1024

// Need is the need with a number: 0 is Each, Nodes and Gang. So is a number that no need
// has.
func (s *Spec) Need(n int) Need {
	if n > 0 && n <= len(s.Needs) {
		return s.Needs[n-1]
	}
	return Need{s.Each, s.Nodes, s.Gang, s.License.Each}
}

// License is what a task takes of a resource that all nodes share, such as a license of the
// site; no name: no task takes of one. In a spec, Each is of the tasks with need 0.
type License struct {
	Name string
	Each int32
}

// Room is the room of the need with a number, as in [Spec.Need]: for a task, or for all
// ranks of a gang together.
func (s *Spec) Room(n int) *filch.Room {
	each, gang := &s.Each, &s.Gang
	if n > 0 && n <= len(s.Needs) {
		each, gang = &s.Needs[n-1].Each, &s.Needs[n-1].Gang
	}
	if gang.Ranks > 0 {
		all := each.Times(gang.Ranks)
		return &all
	}
	return each
}

// Gangs reports whether some of the tasks are gangs.
func (s *Spec) Gangs() bool {
	return s.Gang.Ranks > 0 || slices.ContainsFunc(s.Needs, func(n Need) bool { return n.Gang.Ranks > 0 })
}

// Capped reports whether tasks run under tokens.
func (s *Spec) Capped() bool { return s.Cap > 0 || s.License.Name != "" }

// Tokens is the number of tokens that a task takes whose need has a number, as in
// [Spec.Need], if tasks run under tokens. Of a license, a task may take none.
func (s *Spec) Tokens(n int) int32 {
	switch {
	case s.License.Name == "":
		return 1
	case n > 0 && n <= len(s.Needs):
		return s.Needs[n-1].License
	}
	return s.License.Each
}

// TokenBounds are the least and the greatest number of tokens that a task takes.
func (s *Spec) TokenBounds() (least, most int32) {
	least = s.Tokens(0)
	most = least
	for i := range s.Needs {
		n := s.Tokens(i + 1)
		least, most = min(least, n), max(most, n)
	}
	return least, most
}

// licensesDiffer reports whether the needs take different amounts of the license.
func (s *Spec) licensesDiffer() bool {
	return s.License.Name != "" && slices.ContainsFunc(s.Needs, func(n Need) bool { return n.License != s.License.Each })
}

// Retry is the rule for another try of a failed task.
type Retry struct {
	// Delay is the wait before the first retry. Each further wait is twice the wait before,
	// up to [RetryDelayCap], or to Delay if that is longer.
	Delay time.Duration
	Codes []CodeRange // only these exit codes are retried; none: all
	// Tasks says that payloads may have rules of their own, in place of this rule.
	Tasks bool
	// Times, in a task's own rule, is the number of retries plus 1; 0 is [Spec.Retries].
	Times int32
}

// CodeRange is the exit codes from From to To, with To.
type CodeRange struct{ From, To uint8 }

// Bounds of a rule.
const (
	RetryDelayCap = 10 * time.Minute // of a wait that has grown
	RetryDelayMax = 24 * time.Hour   // of the first wait
	MaxCodes      = 64               // ranges of a rule
)

// Wait is the time before retry n, from 1.
func (r *Retry) Wait(n int32) time.Duration {
	d := r.Delay
	for ; n > 1 && d < RetryDelayCap; n-- {
		d *= 2
	}
	return max(min(d, RetryDelayCap), r.Delay)
}

// Has reports whether an exit code is retried.
func (r *Retry) Has(code int32) bool {
	return len(r.Codes) == 0 || slices.ContainsFunc(r.Codes, func(c CodeRange) bool { return int32(c.From) <= code && code <= int32(c.To) })
}

// CrashLimit is the default of [Spec.CrashLimit].
const CrashLimit = 5

// FailMode is the effect of a failed task on the rest of a graph. After a cancelled task,
// every mode skips the dependents.
type FailMode uint8

// The modes.
const (
	FailSkip FailMode = iota // dependents of the failed task are skipped, the rest goes on
	FailStop                 // no more tasks start
	FailOn                   // dependents of the failed task start all the same
)

// Name is how people call task i: 5 in JOB.5. A task that runs again keeps its name.
func (s *Spec) Name(i int32) int32 {
	for _, p := range s.Again {
		if i < p.Count {
			return p.From + i
		}
		i -= p.Count
	}
	return i
}

// Index is the task with that name; false if there is none.
func (s *Spec) Index(name int32) (i int32, ok bool) {
	if len(s.Again) == 0 {
		return name, name >= 0
	}
	for _, p := range s.Again {
		if name >= p.From && name-p.From < p.Count {
			return i + name - p.From, true
		}
		i += p.Count
	}
	return 0, false
}

// Indices are the tasks with the names from first up to last; lacks is the first name that
// no task has, -1 if there is none. Without names of another job the caller compares the
// indices with the number of tasks.
func (s *Spec) Indices(first, last int32) (list []Pick, lacks int32) {
	if len(s.Again) == 0 {
		return []Pick{{first, last - first + 1}}, -1
	}
	at, next := int32(0), first
	for _, p := range s.Again {
		if from, to := max(p.From, first), min(p.end(), last+1); from < to && from == next {
			list = append(list, Pick{at + from - p.From, to - from})
			next = to
		}
		at += p.Count
	}
	if next <= last {
		return nil, next
	}
	return list, -1
}

// Number is the submitter's number of task i.
func (s *Spec) Number(i int32) int32 {
	i = s.Name(i)
	for _, p := range s.Picks {
		if i < p.Count {
			return p.From + i
		}
		i -= p.Count
	}
	if s.Step == 0 {
		return s.First + i
	}
	return s.First + i*s.Step
}

func (s *Spec) Crashes() uint8 {
	if s.CrashLimit == 0 {
		return CrashLimit
	}
	return s.CrashLimit
}

// CommitsStarts reports whether every start is committed before the task begins.
func (s *Spec) CommitsStarts() bool { return s.Once || s.Sure || s.Copied() }

// Copied reports whether slow tasks may have copies on other nodes. Copies of a capped job would
// take of its cap.
func (s *Spec) Copied() bool { return s.Replicas > 0 && !s.Once && !s.Capped() }

// MaxReplicas bounds [Spec.Replicas].
const MaxReplicas = 8

// MaxLike bounds [Spec.Like], in bytes.
const MaxLike = 256

// MaxPicks bounds the runs of numbers of a spec.
const MaxPicks = 1 << 14

func (s *Spec) fields(c *Codec) {
	c.copied(&s.Body, MaxBlob)
	c.room(&s.Each)
	Index(c, &s.Cap)
	Index(c, &s.Retries)
	U8(c, &s.CrashLimit)
	s.starts(c)
	U8(c, &s.OnFail)
	c.Require(s.OnFail <= FailOn)
	c.Flag(&s.Payloads)
	Int32(c, &s.First)
	Int32(c, &s.Step)
	Int(c, &s.Limit)
	List(c, &s.Picks, MaxPicks, 2, (*Pick).fields)
	Text(c, &s.Like, MaxLike)
	Int(c, &s.Expect)
	c.Flag(&s.Limits)
	last := s.flags()
	U8(c, &last)
	if last&specGang != 0 {
		s.Gang.fields(c)
	}
	if last&specLicense != 0 {
		Text(c, &s.License.Name, filch.MaxLabel)
		Index(c, &s.License.Each)
		c.Require(s.License.Each > 0 || last&specLicenses != 0)
	}
	if last&specNamed != 0 {
		c.named(&s.Each)
	}
	if last&specNodes != 0 {
		nodes(c, &s.Nodes)
	}
	if last&specNeeds != 0 {
		List(c, &s.Needs, MaxNeeds, 4, (*Need).fields)
		for i := range s.Needs {
			if last&specLicenses != 0 {
				Index(c, &s.Needs[i].License)
			} else if !c.Encodes {
				s.Needs[i].License = s.License.Each
			}
		}
	}
	if s.Sure = last&specSure != 0; last&specAgain != 0 {
		List(c, &s.Again, MaxPicks, 2, (*Pick).fields)
	}
	// A spec without a rule ends here.
	if !c.Encodes && c.Left() > 0 {
		s.Retry = &Retry{}
	}
	if s.Retry != nil {
		s.Retry.fields(c)
	}
}

// Flags of the starts of a task.
const (
	startsOnce = 1 << iota
	startsFirm
	startsReplicas // their number follows
)

// starts is whether a task may start again, and how often at a time.
func (s *Spec) starts(c *Codec) {
	flags := c.Facts(s.Once, s.Firm, s.Replicas > 0)
	if s.Once, s.Firm = flags&startsOnce != 0, flags&startsFirm != 0; flags&startsReplicas != 0 {
		U8(c, &s.Replicas)
		c.Require(s.Replicas > 0 && s.Replicas <= MaxReplicas)
	}
}

// flags are the bits of the last byte that every spec has.
func (s *Spec) flags() (last uint8) {
	if s.Sure {
		last |= specSure
	}
	if len(s.Again) > 0 {
		last |= specAgain
	}
	if s.Nodes != nil {
		last |= specNodes
	}
	if s.Each.Named != "" {
		last |= specNamed
	}
	if s.License.Name != "" {
		last |= specLicense
	}
	if len(s.Needs) > 0 {
		last |= specNeeds
	}
	if s.Gang.Ranks > 0 {
		last |= specGang
	}
	if s.licensesDiffer() {
		last |= specLicenses
	}
	return last
}

func (n *Need) fields(c *Codec) {
	c.room(&n.Each)
	c.named(&n.Each)
	has := uint8(0)
	if n.Nodes != nil {
		has |= needNodes
	}
	if n.Gang.Ranks > 0 {
		has |= needGang
	}
	U8(c, &has)
	c.Require(has <= needNodes|needGang)
	if has&needNodes != 0 {
		nodes(c, &n.Nodes)
	}
	if has&needGang != 0 {
		n.Gang.fields(c)
	}
}

// Flags of a need.
const (
	needNodes = 1 << iota
	needGang
)

func (g *Gang) fields(c *Codec) {
	Index(c, &g.Ranks)
	Index(c, &g.Nodes)
	Index(c, &g.Most)
	Index(c, &g.PerNode)
	Index(c, &g.NodeGPUs)
	Index(c, &g.Spare)
	c.Require(g.Ranks > 0)
}

func (c *Codec) named(r *filch.Room) {
	Text(c, &r.Named, maxNamed)
	c.Require(r.Named.Check() == nil)
}

// Room is a room with its named resources.
func (c *Codec) Room(r *filch.Room) {
	c.room(r)
	c.named(r)
}

func nodes(c *Codec, to **filch.Nodes) {
	if !c.Encodes {
		*to = &filch.Nodes{}
	}
	n := *to
	name := func(n *filch.NodeName, c *Codec) { Text(c, n, filch.MaxNodeName) }
	List(c, &n.Only, filch.MaxNodes, 1, name)
	List(c, &n.Exclude, filch.MaxNodes, 1, name)
	Text(c, &n.Labels, 2*filch.MaxConstraint) // of -C, and the kind of the GPUs
}

func (r *Retry) fields(c *Codec) {
	Amount(c, &r.Delay)
	c.Require(r.Delay <= RetryDelayMax)
	List(c, &r.Codes, MaxCodes, 2, (*CodeRange).fields)
	c.Flag(&r.Tasks)
	Index(c, &r.Times)
}

func (r *CodeRange) fields(c *Codec) {
	U8(c, &r.From)
	U8(c, &r.To)
}

// Encode is the rule's bytes.
func (r *Retry) Encode() []byte {
	c := Writing(32)
	r.fields(&c)
	return c.B
}

// DecodeRetry reads a rule.
func DecodeRetry(v []byte) (*Retry, error) {
	c, r := Reading(v), &Retry{}
	r.fields(&c)
	return r, c.Done()
}

// Flags in the last byte of a spec without names of another job.
const (
	specSure = 1 << iota
	specAgain
	specNodes
	specNamed
	specLicense
	specNeeds
	specGang
	specLicenses
)

// maxNamed bounds the named resources of a task, in bytes.
const maxNamed = 2048

func (p *Pick) fields(c *Codec) {
	Int32(c, &p.From)
	Index(c, &p.Count)
}

func (c *Codec) room(r *filch.Room) {
	Index(c, &r.Slots)
	Amount(c, &r.MemBytes)
	Index(c, &r.GPUs)
}

// Encode is the spec's bytes.
func (s *Spec) Encode() []byte {
	c := Writing(32)
	s.fields(&c)
	return c.B
}

// DecodeSpec reads a spec.
func DecodeSpec(v []byte) (*Spec, error) {
	c, s := Reading(v), &Spec{}
	s.fields(&c)
	return s, c.Done()
}
