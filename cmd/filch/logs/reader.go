package logs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of reading.
const (
	// heldFor is how long a node waits for output before an empty answer.
	heldFor = 25 * time.Second
	// doneWait is how long the nodes of an ended run may take to hand over the last output.
	doneWait = 10 * time.Second
	// atOnce bounds the nodes that send kept output at the same time.
	atOnce = 8
	// The bytes in an answer: all answers together are some MiB.
	answerMax  = 256 << 10
	answerMin  = 4 << 10
	answersMax = 4 << 20
	// nodesEvery is how often a follower looks for new and lost nodes.
	nodesEvery = 2 * time.Second
	// askAgain is the pause after a failed query.
	askAgain = time.Second
	// followRest is the rest after output of running tasks or ranks: a job that prints
	// all the time costs seven answers a second at most. The node of the output rests, and
	// not the reader: the next query follows its answer at once, so that the processes on
	// the way wake once for both.
	followRest = 150 * time.Millisecond
)

// The words of [Reader.Show].
const (
	Lines  = wire.OutputLines
	Ended  = wire.OutputEnded
	Failed = wire.OutputFailed
)

// Sink takes the output.
type Sink interface {
	// Piece takes a piece; the pieces of one stream come in order.
	Piece(t *Target, p *wire.OutputPiece) error
	// CaughtUp is called once, when all output so far has come.
	CaughtUp() error
	// Idle is called now and then while a Reader follows.
	Idle(now time.Time) error
}

// Reader reads the output of jobs. The fields are set before Run.
type Reader struct {
	Targets []Target
	Follow  bool     // until the jobs have ended
	Show    []string // words of [wire.VerbOutput]
	Whole   bool     // the output of a task comes whole: Show has [wire.OutputEnded]
	Sink    Sink
	Beat    time.Duration // between calls of Idle; 0: nodesEvery
	// Again connects to another launcher after the loss of the connection, until a deadline; nil:
	// the loss ends Run.
	Again  func(deadline time.Time) (*client.Client, error)
	Passed <-chan int32 // news that all tasks before a number have ended, for a passer; or nil

	queries asker
	jobs    []*job
	up      map[filch.NodeName]bool
	names   []filch.NodeName // of all nodes
	open    map[uint32]func(*client.Reply) error
	busy    int   // queries for kept output under way
	caught  bool  // CaughtUp was called
	only    *part // the task of this part goes on in the next answer
	later   []client.Reply
	told    map[string]bool
	passing passing
	looked  time.Time // for nodes
	due     time.Time // of the next query after a pause
	losses  cli.Losses
}

// asker is a connection with many queries under way: [client.Queries].
type asker interface {
	Send(verb string, args ...string) (req uint32, err error)
	Next() (client.Reply, error)
	Close()
}

// job is a target being read.
type job struct {
	*Target
	ended   bool
	endedAt time.Time
	waiting bool
	again   time.Time
	parts   map[filch.NodeName]*part
}

// part is the output of a job on a node.
type part struct {
	job    *job
	node   filch.NodeName
	cursor string
	req    uint32 // 0: no query is under way
	held   bool   // the query waits for output
	final  bool   // the query began after the end of the job
	asked  int    // the round of [passing] in which the query began
	round  int    // the latest round that the node has answered
	rests  bool   // the last answer to a held query had output
	caught bool
	over   bool // nothing more is read
	lost   bool // with its node
	unread bool // the node did not answer any more
	again  time.Time
}

func (j *job) tasks() bool { return cli.IsTasks(&j.Info) }

// Run reads until all wanted output has come, and closes the client.
func (r *Reader) Run(c *client.Client) error { return r.run(c.Queries()) }

func (r *Reader) run(queries asker) error {
	r.queries = queries
	defer func() { r.queries.Close() }()
	r.open, r.told = map[uint32]func(*client.Reply) error{}, map[string]bool{}
	for i := range r.Targets {
		t := &r.Targets[i]
		t.order = i
		j := &job{Target: t, ended: t.Info.Code != nil, parts: map[filch.NodeName]*part{}}
		if err := j.readable(r.Follow); err != nil {
			return err
		}
		r.jobs = append(r.jobs, j)
	}
	for {
		err := r.follow()
		if err == nil && r.Follow {
			r.sayUnread()
		}
		if err == nil || !r.Follow || r.Again == nil || ui.KindOf(err) != filch.Unavailable {
			return err
		}
		if err := r.goOn(); err != nil {
			return err
		}
	}
}

// follow reads until all wanted output has come, or the connection is lost.
func (r *Reader) follow() error {
	answers, stop := r.answers()
	defer stop()
	if err := r.askNodes(func() {}); err != nil {
		return err
	}
	beat := r.Beat
	if beat == 0 {
		beat = nodesEvery
	}
	ticker := time.NewTicker(min(beat, askAgain))
	defer ticker.Stop()
	r.looked = time.Now()
	soon := time.NewTimer(beat)
	defer soon.Stop()
	for {
		if r.names != nil {
			if err := r.ask(); err != nil {
				return err
			}
			if err := r.endRound(); err != nil {
				return err
			}
			if done, err := r.progress(); err != nil || done {
				return err
			}
			soon.Reset(max(time.Until(r.due), 0))
		}
		select {
		case <-soon.C:
		case a := <-answers:
			if a.err != nil {
				return a.err
			}
			if err := r.onReply(a.reply); err != nil {
				return err
			}
		case upto := <-r.Passed:
			if err := r.onPassed(upto); err != nil {
				return err
			}
		case now := <-ticker.C:
			if err := r.onTick(now); err != nil {
				return err
			}
		}
	}
}

func (r *Reader) onTick(now time.Time) error {
	if r.Follow && readerGone(os.Stdout) {
		return ui.Exit(filch.ExitSignalBase + int(ui.SIGPIPE))
	}
	if err := r.Sink.Idle(now); err != nil || !r.Follow || now.Sub(r.looked) < nodesEvery {
		return err
	}
	r.looked = now
	return r.askNodes(func() {})
}

// readerGone reports whether no process reads f any more; a program with nothing to
// write would never notice.
func readerGone(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLERR != 0
}

// readable refuses a job without kept output.
func (j *job) readable(follow bool) error {
	i := &j.Info
	switch {
	case j.tasks():
	case !i.Detached:
		return filch.Errorf(filch.NotFound, "no output of job %d is kept: the job was not detached", j.Job).
			WithHint("its output went to its client; filch run --detach keeps the output on the nodes")
	case !follow && !j.ended && len(i.Nodes)+len(i.Earlier) == 0:
		return filch.Errorf(filch.NotFound, "no output of job %d is kept: the job has not started yet", j.Job).
			WithHint("filch logs -f %d waits for the output", j.Job)
	case j.First >= i.Ranks && i.Ranks > 0:
		return cli.NoRank(i, j.First)
	}
	return nil
}

// warn prints a warning once.
func (r *Reader) warn(text string) {
	if !r.told[text] {
		r.told[text] = true
		ui.Warn(text)
	}
}

// send sends a query; f takes the reply.
func (r *Reader) send(f func(*client.Reply) error, verb string, args ...string) (uint32, error) {
	req, err := r.queries.Send(verb, args...)
	if err == nil {
		r.open[req] = f
	}
	return req, err
}

// onReply hands replies to their takers. While the output of a task goes on, the replies
// of other parts wait.
func (r *Reader) onReply(reply client.Reply) error {
	if r.only != nil && r.only.req == reply.Req {
		if err := r.take(reply); err != nil {
			return err
		}
	} else {
		r.later = append(r.later, reply)
	}
	for r.only == nil && len(r.later) > 0 {
		next := r.later[0]
		r.later = r.later[1:]
		if err := r.take(next); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) take(reply client.Reply) error {
	f := r.open[reply.Req]
	delete(r.open, reply.Req)
	if f == nil { // of an abandoned query
		return nil
	}
	return f(&reply)
}

// ask sends the queries that are due.
func (r *Reader) ask() error {
	now := time.Now()
	r.due = now.Add(nodesEvery)
	for _, j := range r.jobs {
		if r.Follow && !j.ended && !j.waiting && now.After(j.again) {
			if err := r.awaitEnd(j); err != nil {
				return err
			}
		}
		for _, name := range r.names {
			p := j.parts[name]
			if p == nil {
				if !j.tasks() && !j.has(name) && (j.ended || !r.Follow) {
					continue
				}
				p = &part{job: j, node: name}
				j.parts[name] = p
			}
			if p.over || p.lost || p.req != 0 || r.pauses(p) {
				continue
			}
			if now.Before(p.again) {
				if p.again.Before(r.due) {
					r.due = p.again
				}
				continue
			}
			if err := r.askPart(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// pauses reports whether a part that was read waits until all others were read too, since
// only then the node may hold a query.
func (r *Reader) pauses(p *part) bool {
	return r.Follow && !r.caught && p.caught && !p.job.ended && p.round == r.passing.round
}

// askPart asks a node for output, and unless there may be some already, waits for output.
func (r *Reader) askPart(p *part) error {
	j := p.job
	wait, rest := "", ""
	switch {
	case r.caught && r.Follow && !j.ended && p.round == r.passing.round:
		if wait = heldFor.String(); p.rests {
			rest = followRest.String()
		}
	case j.ended && !j.tasks() && r.Follow && p.caught:
		wait = time.Second.String() // the last output of a run may be on its way
	case r.busy >= atOnce && r.only != p:
		return nil
	}
	kind := wire.OutputRanks
	if j.tasks() {
		kind = wire.OutputTasks
	}
	span := fmt.Sprintf("%d-%d", j.First, j.Last)
	limit := min(max(answersMax/max(len(r.names)*len(r.jobs), 1), answerMin), answerMax)
	req, err := r.send(func(reply *client.Reply) error { return r.onOutput(p, reply) },
		wire.VerbOutput, string(p.node), j.Job.String(), kind, span, p.cursor, strconv.Itoa(limit), wait, strings.Join(r.Show, ","), rest)
	if err != nil {
		return err
	}
	p.req, p.held, p.final, p.asked = req, wait != "", j.ended, r.passing.round
	if !p.held {
		r.busy++
	}
	return nil
}

// onOutput takes output of a node.
func (r *Reader) onOutput(p *part, reply *client.Reply) error {
	r.abandon(p)
	var c wire.OutputChunk
	if err := reply.Decode(&c); err != nil {
		r.onTrouble(p, err)
		return nil
	}
	r.warnOf(p, &c)
	for i := range c.Pieces {
		if err := r.Sink.Piece(p.job.Target, &c.Pieces[i]); err != nil {
			return err
		}
	}
	p.cursor, p.rests = c.Next, c.End && p.held && len(c.Pieces) > 0
	if !c.End {
		if r.Whole {
			r.only = p
		}
		return nil
	}
	p.caught, p.round = true, p.asked
	switch j := p.job; {
	case c.Short && time.Since(j.endedAt) < doneWait && p.final:
		p.again = time.Now().Add(askAgain)
	case !r.Follow, p.final && j.tasks():
		p.over, p.unread = true, c.Short
	case p.final:
		p.over = c.Done || time.Since(j.endedAt) > doneWait
	}
	if p.over && c.Absent && p.job.ended && !p.job.tasks() && p.job.has(p.node) {
		r.warn(missing(p))
	}
	return nil
}

func missing(p *part) string {
	return fmt.Sprintf("cannot read the output of job %d on node %s: the node is gone, or has dropped the output", p.job.Job, p.node)
}

// onTrouble handles a node that does not answer. A node that is up is asked again.
func (r *Reader) onTrouble(p *part, err error) {
	text := fmt.Sprintf("cannot read the output of tasks of job %d on %s: %s", p.job.Job, p.node, err.Error())
	if !p.job.tasks() {
		text = missing(p)
	}
	if p.job.tasks() && !p.job.unused[p.node] || p.job.has(p.node) {
		r.warn(text)
	}
	p.caught, p.round = true, r.passing.round
	p.again = time.Now().Add(askAgain)
	p.lost = !r.up[p.node]
	p.over = !r.Follow || p.job.ended && (p.lost || !p.job.tasks() || time.Since(p.job.endedAt) > doneWait)
	p.unread = p.over
}

// warnOf prints the losses that a node reports.
func (r *Reader) warnOf(p *part, c *wire.OutputChunk) {
	job := p.job.Job
	if c.Gone > 0 {
		r.warn(fmt.Sprintf("%d bytes of output of job %d on %s were dropped: a node keeps only the latest output", c.Gone, job, p.node))
	}
	if c.Cut > 0 {
		r.warn(fmt.Sprintf("the output of %s of job %d is cut or missing: %s", filch.Plural(c.Cut, "task"), job, c.Why))
	}
	if c.Bad > 0 {
		r.warn(fmt.Sprintf("%s of output on %s could not be read and were left out", filch.Plural(c.Bad, "block"), p.node))
	}
	if c.Lost > 0 {
		ui.Warn(fmt.Sprintf("%d bytes of earlier output were dropped: the log is limited", c.Lost))
	}
}

// awaitEnd waits for the end of a job.
func (r *Reader) awaitEnd(j *job) error {
	_, err := r.send(func(reply *client.Reply) error {
		var info launcher.JobInfo
		if err := reply.Decode(&info); err != nil {
			if j.waiting = false; ui.KindOf(err) == filch.NotFound && !r.losses.Recent() {
				return err
			}
			r.warn(fmt.Sprintf("cannot learn whether job %d has ended: %s; asking again", j.Job, err.Error()))
			j.again = time.Now().Add(askAgain)
			return nil
		}
		j.Info = info
		if info.Code != nil {
			// Nodes that have joined since the last look may have run tasks.
			return r.askNodes(func() { r.onEnd(j) })
		}
		j.waiting = false
		return nil
	}, wire.VerbWait, j.Job.String(), heldFor.String())
	j.waiting = err == nil
	return err
}

// onEnd reads the output of an ended job once more, without waiting.
func (r *Reader) onEnd(j *job) {
	j.waiting, j.ended, j.endedAt = false, true, time.Now()
	for _, p := range j.parts {
		r.abandon(p)
		p.again = time.Time{}
		p.over = p.lost || !j.tasks() && !j.has(p.node)
	}
}

// progress reports whether all output was read.
func (r *Reader) progress() (done bool, err error) {
	caught := true
	done = true
	for _, j := range r.jobs {
		done = done && (j.ended || !r.Follow)
		for _, name := range r.names {
			p := j.parts[name]
			if p == nil {
				continue
			}
			caught = caught && (p.caught || p.lost)
			done = done && (p.over || p.lost)
		}
	}
	if caught && !r.caught {
		r.caught, r.due = true, time.Now() // the parts that pause are asked at once
		if err := r.Sink.CaughtUp(); err != nil {
			return false, err
		}
	}
	return done, nil
}
