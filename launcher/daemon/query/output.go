package query

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of reading output.
const (
	// chunkBytes bounds the output in an answer, but for the last block of a segment.
	chunkBytes = 2 << 20
	// heldMax is how long a query waits for output; the client then asks again.
	heldMax = 30 * time.Second
	// gatherOutput is the time from the first news to the answer, for lines that a task
	// prints together, and for other tasks.
	gatherOutput = 20 * time.Millisecond
	// pauseFull is the time before an answer with the output of running tasks that has
	// reached the limit, so that a follower of a flood reads some MiB a second.
	pauseFull = 40 * time.Millisecond
)

// outputWait is how long another node may take to read output. A client of filch waits for a
// second longer. A node that has just come back, or whose disk is busy, takes longer than for
// what it has in memory.
const outputWait = 4 * time.Second

// outputQuery is a query for the output of a job on this node.
type outputQuery struct {
	job         filch.JobID
	first, last int32 // of the tasks or ranks
	from        string
	limit       int
	wait        time.Duration // 0: not at all
	rest        time.Duration // before the first look, a part of wait
	failed      bool
	ended       bool
	lines       bool
}

// output answers a query for output, here or on the node of the query.
func (sv *Server) output(q wire.Query, arg func(int) string, local bool) (any, error) {
	o, err := sv.readOutputQuery(arg)
	if err != nil {
		return nil, err
	}
	if node := filch.NodeName(arg(0)); node != sv.in.Self {
		if err := sv.checkUp(node, local); err != nil {
			return nil, err
		}
		c := new(wire.Raw)
		return c, sv.daemon.Questions.Ask(node, o.wait+outputWait, q, c)
	}
	r := outputs{sv.in.Self, &sv.daemon}
	read, await := r.printed, r.awaitPrinted
	if arg(2) == wire.OutputRanks {
		read, await = r.logged, r.awaitLogged
	}
	end := time.Now().Add(o.wait)
	if o.rest > 0 {
		sv.in.Pause(o.rest, end)
	}
	for {
		news, stop := await(o) // before the read: or the news in between would be missed
		c, err := read(o)
		if err != nil || c.worthy() || !time.Now().Before(end) {
			stop()
			if err == nil && o.wait > 0 && !c.End {
				sv.in.Pause(pauseFull, end)
			}
			return &c.OutputChunk, err
		}
		came := sv.in.Await(news, time.Until(end))
		stop()
		if sv.in.Context().Err() != nil {
			return nil, sv.in.GoingDown()
		}
		if came {
			sv.in.Pause(gatherOutput, end)
		}
	}
}

// answer is an answer under way.
type answer struct {
	wire.OutputChunk
	over bool // no output will follow
}

// worthy reports whether an answer need not wait for more.
func (a *answer) worthy() bool {
	return len(a.Pieces) > 0 || !a.End || a.over || a.Lost > 0
}

func (sv *Server) readOutputQuery(arg func(int) string) (*outputQuery, error) {
	job, err := sv.parseJob(arg(1))
	if err != nil {
		return nil, err
	}
	o := &outputQuery{job: job, last: math.MaxInt32, from: arg(4)}
	if text := arg(3); text != "" {
		low, high, _ := strings.Cut(text, "-")
		first, err1 := strconv.ParseInt(low, 10, 32)
		last, err2 := strconv.ParseInt(high, 10, 32)
		if err1 != nil || err2 != nil || first < 0 || last < first {
			return nil, filch.Errorf(filch.Invalid, "%q is not FIRST-LAST of tasks or ranks", clipText(text))
		}
		o.first, o.last = int32(first), int32(last)
	}
	if o.limit, err = strconv.Atoi(arg(5)); err != nil || o.limit < 1 || o.limit > chunkBytes {
		return nil, filch.Errorf(filch.Invalid, "cannot read %q bytes of output at once: at most %d", clipText(arg(5)), chunkBytes)
	}
	if arg(6) != "" {
		o.wait = min(parseWait(arg(6)), heldMax)
	}
	if arg(8) != "" {
		o.rest = min(parseWait(arg(8)), o.wait)
	}
	show := strings.Split(arg(7), ",")
	o.failed, o.ended, o.lines = slices.Contains(show, wire.OutputFailed), slices.Contains(show, wire.OutputEnded), slices.Contains(show, wire.OutputLines)
	o.ended = o.ended || o.failed // a running task may yet end well
	return o, nil
}

// clipText shortens a text that an error repeats.
func clipText(s string) string { return s[:min(len(s), 60)] }

func (o *outputQuery) span() launcher.TaskSpan {
	return launcher.TaskSpan{Job: o.job, First: launcher.TaskIndex(o.first), Last: launcher.TaskIndex(o.last)}
}

// outputs reads the output of jobs on this node, while they run and afterwards.
type outputs struct {
	self   filch.NodeName
	daemon *Parts
}

// logged reads the log of a detached run.
func (out outputs) logged(o *outputQuery) (a answer, err error) {
	at := uint64(0)
	if o.from != "" {
		if at, err = strconv.ParseUint(o.from, 10, 64); err != nil {
			return a, filch.Errorf(filch.Invalid, "%q is not a place in the output", clipText(o.from))
		}
	}
	c, next, err := out.daemon.Routes.ReadLog(o.job, filch.Rank(o.first), filch.Rank(o.last), at, o.limit)
	c.Next = strconv.FormatUint(next, 10)
	// A run that has not begun is not over: its first output makes the log.
	return answer{OutputChunk: c, over: c.Done && !c.Absent}, err
}

func (out outputs) awaitLogged(o *outputQuery) (<-chan struct{}, func()) {
	return out.daemon.Routes.AwaitLog(o.job)
}

func (out outputs) awaitPrinted(o *outputQuery) (<-chan struct{}, func()) {
	return out.daemon.Runners.AwaitOutput(o.span())
}
