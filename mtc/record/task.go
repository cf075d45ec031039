package record

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Task is the entry of a task in a block's record. A task without an entry was started at
// most once, and belongs to the owner of the range.
type Task struct {
	State   filch.State // its end; Waiting until then
	Code    int32
	Attempt filch.Attempt // of the end, else of the present or next start
	Hop     uint32        // number of moves in this attempt
	Owner   Owner         // none: the owner of the range around the task
	Started bool          // the start of this attempt was committed
	Maybe   bool          // an uncommitted start may have come before the first attempt
	Crashes uint8         // committed starts that ended with the death of their node
	Recalls uint8         // committed starts that were stopped for a gang
	Extra   uint8         // ends that came after the first
	Began   int64         // unix microseconds, by the clock of the node in By
	TookUS  int64
	Bytes   int64        // of the task's output
	Cut     bool         // some of the task's output found no space
	Usage   *filch.Usage // of the attempt that ended; nil not known: most blocks have none
	Stages  *Stages      // of the attempt that ended; nil not known
	By      Owner        // the node that ran it
	Copy    bool         // By ran a copy: see [Task.Rivals]
	Take    Take         // the take by Owner, until the next operation on the task
	// Earlier are nodes of starts before the last, also of starts that were not committed and
	// may not have happened: at most [earlierMax], each once. By and Owner may be among them.
	Earlier []Owner
	// Rivals are the other starts of the attempt that ended: of the task, if a copy ended first,
	// else of copies. At most MaxReplicas.
	Rivals []Rival
	// Nodes had the ranks of the gang that ended, the node of rank 0 first; none: not a gang, or
	// not known.
	Nodes []NodeRun
	// Slots of By had the process that ended; none: a gang, or not known.
	Slots filch.Slots
}

// Rival is a start that another start of the same attempt outdid.
type Rival struct {
	Owner
	Over bool // failed, or gave up, before the end; else stopped after the end
}

func (r *Rival) fields(c *Codec) {
	c.oneOf(&r.Owner)
	c.Flag(&r.Over)
}

func rivals(c *Codec, list *[]Rival) { List(c, list, MaxReplicas, 2, (*Rival).fields) }

// earlierMax bounds the earlier nodes of a task; nodes after these are not recorded.
const earlierMax = 8

// startedBy notes that o has started the task, or may have.
func (t *Task) startedBy(o Owner) {
	if o != (Owner{}) && len(t.Earlier) < earlierMax && !slices.Contains(t.Earlier, o) {
		t.Earlier = append(slices.Clip(t.Earlier), o)
	}
}

// RanOn are the nodes that have started the task, or may have, as far as the record tells. A
// first start stands in the record only with its end, or after the death of its node. all is
// false if there may be further nodes: the list of earlier nodes is full.
func (t *Task) RanOn() (nodes []Owner, all bool) {
	nodes = slices.Clone(t.Earlier)
	if t.Started {
		nodes = append(nodes, t.Owner)
	}
	idle := t.Began == 0 && (t.State == filch.Skipped || t.State == filch.Cancelled)
	if t.State.Final() && !idle {
		nodes = append(nodes, t.By)
	}
	for i := range t.Rivals {
		nodes = append(nodes, t.Rivals[i].Owner)
	}
	return nodes, len(t.Earlier) < earlierMax
}

// Stages are the parts of an attempt beside the process itself; 0: not known, or none.
type Stages struct {
	Queued time.Duration // on the queue of the node that ran the task, until Began; milliseconds
	In     time.Duration // from Began: until the inputs were there
	Out    time.Duration // up to the end: since the process ended, until the outputs were taken
}

func (s *Stages) fields(c *Codec) {
	for _, d := range [...]struct {
		d    *time.Duration
		unit time.Duration
	}{{&s.Queued, time.Millisecond}, {&s.In, time.Microsecond}, {&s.Out, time.Microsecond}} {
		n := int64(*d.d / d.unit)
		Amount(c, &n)
		*d.d = time.Duration(min(n, int64(filch.Never/d.unit))) * d.unit
	}
}

// stages are those of a task that has some.
func (c *Codec) stages(s **Stages) {
	if *s == nil {
		*s = &Stages{}
	}
	(*s).fields(c)
}

// Take is the number of an operation by which a node takes the tasks of a dead owner;
// each number is unique within an incarnation of the taking node. A taken task keeps the
// number until the next operation on the task: the store may execute a merge twice and
// return the second answer only, and this answer must still list the taken tasks. 0:
// none.
type Take uint64

// again reports whether k repeats the take had.
func (k Take) again(had Take) bool { return k != 0 && k == had && !mutantTakeOnce }

// Took is how long the task ran; 0: not known.
func (t *Task) Took() time.Duration { return time.Duration(max(t.TookUS, 0)) * time.Microsecond }

// Ran is how long the task ran without the staging of its files; 0: not known.
func (t *Task) Ran() time.Duration {
	if t.Stages == nil || mutantStaged {
		return t.Took()
	}
	return max(t.Took()-t.Stages.In-t.Stages.Out, 0)
}

// Starts is the greatest possible number of starts of the task, the coming start included
// if the task has no end.
func (t *Task) Starts() int32 { return Starts(t.Attempt, t.Maybe) }

func Starts(a filch.Attempt, maybe bool) int32 {
	if maybe {
		return int32(a) + 1
	}
	return int32(a)
}

// behind reports whether attempt a and hop h are older than the task's own.
func (t *Task) behind(a filch.Attempt, h uint32) bool {
	return a < t.Attempt || a == t.Attempt && h < t.Hop
}
