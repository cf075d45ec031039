package api

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// operation is what a line may ask for. docs/api.md takes its words from here.
type operation struct {
	doc  string
	long bool // a line may have lineMax bytes
	args func() any
	do   func(ctx context.Context, c *call, args any) (any, error)
}

// call is a request under way.
type call struct {
	*session
	id json.RawMessage
}

// news sends a line that is not the last of the request, once the client has read most of what
// was sent before. False means that nobody reads any more.
func (c *call) news(v any) bool {
	if !c.out.room() {
		return false
	}
	c.out.send(reply{ID: c.id, News: v})
	return true
}

// errUnread ends a request whose client has gone.
var errUnread = filch.Errorf(filch.Canceled, "the client is gone")

// operations are all operations by name. The init breaks a cycle: an operation may refuse a
// name with the list of names.
var operations map[string]*operation

func init() {
	operations = map[string]*operation{
		"hello":   op("Says who answers, the file name of the `socket`, and the limits of a client: bytes of a `line`, requests `open` at once, bytes of answers `queued` unread.", hello),
		"nodes":   op("The result is the list of nodes, as of `filch nodes --json`.", listNodes),
		"jobs":    op("The result is the list of jobs of the instance, as of `filch ps -a --json`.", listJobs),
		"info":    op("The result is the job, as of `filch info --json`.", info),
		"submit":  op("Submits a bag of tasks, or with `ranks` a run. The result has the `job`, its `name` and its number of `tasks`, once the job is recorded.", submitJob),
		"add":     op("Adds tasks to an open job. The result has the number of the `first` added task and how many were `added`, once they are recorded.", add),
		"close":   op("Closes an open job, which then ends with its last task. The result is the job.", closeJob),
		"cancel":  op("Cancels a job, or some of its tasks. The result is the job.", cancelJob),
		"wait":    op("Waits for the end of a job. The result is the job at its end; without an end within the time, the error is `timeout`.", wait),
		"watch":   op("News is the job at first and after a change, at most ten times a second. The result is the job at its end.", watch),
		"results": op("News is a task, or a rank of a run, that has ended: see [Results](#results). The result is the job.", results),
		"events":  op("News is an event, as of `filch events --json`, or says how many events of a `node` are `lost`. Goes on until `stop`.", follow),
		"stop":    op("Ends a request of this connection, which answers with the error `cancelled`. A job goes on. The result says whether the request was under way, as `stopped`.", stop),
	}
	operations["submit"].long, operations["add"].long = true, true
}

// op is an operation whose lines are an A.
func op[A any](doc string, do func(ctx context.Context, c *call, a *A) (any, error)) *operation {
	return &operation{
		doc: doc, args: func() any { return new(A) },
		do: func(ctx context.Context, c *call, args any) (any, error) { return do(ctx, c, args.(*A)) },
	}
}

func names() []string { return slices.Sorted(maps.Keys(operations)) }

// noArgs is a line with an op alone.
type noArgs struct{ envelope }

// jobArgs is a line about a job.
type jobArgs struct {
	envelope
	Job filch.JobID `json:"job" doc:"the job"`
}

type cancelArgs struct {
	envelope
	Job    filch.JobID `json:"job" doc:"the job"`
	Reason string      `json:"reason" doc:"why, for filch info; at most 256 bytes"`
	Tasks  [][2]int32  `json:"tasks" doc:"only the tasks from the first to the second number of each pair"`
}

type waitArgs struct {
	envelope
	Job    filch.JobID `json:"job" doc:"the job"`
	Within float64     `json:"within" doc:"seconds; 0: as long as it takes"`
}

type stopArgs struct {
	envelope
	Request json.RawMessage `json:"request" doc:"the id of the request"`
}

// greeting is the result of hello.
type greeting struct {
	Node        filch.NodeName `json:"node"`
	Instance    string         `json:"instance"`
	Build       string         `json:"build"`
	Incarnation uint64         `json:"incarnation"`
	Socket      string         `json:"socket"`
	Limits      limits         `json:"limits"`
}

type limits struct {
	Line   int `json:"line"`
	Open   int `json:"open"`
	Queued int `json:"queued"`
}

func hello(_ context.Context, c *call, _ *noArgs) (any, error) {
	l := &c.launcher
	return greeting{l.Node, l.Instance, l.Build, l.Incarnation, l.Socket, limits{lineMax, openMax, queuedMax}}, nil
}

func listNodes(ctx context.Context, c *call, _ *noArgs) (any, error) {
	return c.ask(ctx, queryWait, wire.VerbNodes)
}

func listJobs(ctx context.Context, c *call, _ *noArgs) (any, error) {
	return c.ask(ctx, queryWait, wire.VerbPs)
}

func info(ctx context.Context, c *call, a *jobArgs) (any, error) {
	return c.ask(ctx, queryWait, wire.VerbInfo, a.Job.String())
}

func closeJob(ctx context.Context, c *call, a *jobArgs) (any, error) {
	return c.ask(ctx, queryWait, wire.VerbClose, a.Job.String())
}

// reasonMax bounds the reason of a cancel, in bytes.
const reasonMax = 256

func cancelJob(ctx context.Context, c *call, a *cancelArgs) (any, error) {
	if len(a.Reason) > reasonMax {
		return nil, filch.Errorf(filch.Invalid, "the reason has %d bytes, at most %d", len(a.Reason), reasonMax)
	}
	words := []string{a.Job.String(), strconv.Itoa(sigTerm), a.Reason}
	if len(a.Tasks) > 0 {
		list, err := json.Marshal(a.Tasks)
		if err != nil {
			return nil, err
		}
		words = append(words, string(list))
	}
	return c.ask(ctx, queryWait, wire.VerbCancel, words...)
}

// sigTerm is Linux's number, with which a cancel begins.
const sigTerm = 15

func stop(_ context.Context, c *call, a *stopArgs) (any, error) {
	return struct {
		Stopped bool `json:"stopped"`
	}{c.stop(string(a.Request))}, nil
}

// queryWait is how long the launcher may take for an answer.
const queryWait = 30 * time.Second

// ask asks the launcher a question.
func (s *session) ask(ctx context.Context, within time.Duration, verb string, args ...string) (answer json.RawMessage, err error) {
	err = s.with(ctx, func(c *client.Client) error {
		answer, err = c.Query(within, verb, args...)
		return err
	})
	return answer, err
}

// job asks for a job.
func (s *session) job(ctx context.Context, id filch.JobID) (raw json.RawMessage, j *launcher.JobInfo, err error) {
	if raw, err = s.ask(ctx, queryWait, wire.VerbInfo, id.String()); err != nil {
		return nil, nil, err
	}
	j = new(launcher.JobInfo)
	return raw, j, json.Unmarshal(raw, j)
}

// Waits for the end of a job.
const (
	waitPart = 20 * time.Second // then the launcher is asked again
	waitMax  = 1e9              // seconds; more is for ever
)

func wait(ctx context.Context, c *call, a *waitArgs) (any, error) {
	if a.Within < 0 {
		return nil, filch.Errorf(filch.Invalid, "within is %v seconds: a time is at least 0", a.Within)
	}
	var end time.Time
	if a.Within > 0 && a.Within < waitMax {
		end = time.Now().Add(time.Duration(a.Within * float64(time.Second)))
	}
	for {
		part := waitPart
		if !end.IsZero() {
			part = min(part, max(time.Until(end), 0))
		}
		raw, err := c.ask(ctx, part+queryWait, wire.VerbWait, a.Job.String(), part.String())
		if err != nil {
			return nil, err
		}
		var j launcher.JobInfo
		switch err := json.Unmarshal(raw, &j); {
		case err != nil:
			return nil, err
		case j.Code != nil:
			return raw, nil
		case !end.IsZero() && !time.Now().Before(end):
			return nil, filch.Errorf(filch.Timeout, "job %d has not ended within %v s", a.Job, a.Within)
		}
	}
}

// watchPause is the time between two news of a job.
const watchPause = 100 * time.Millisecond

func watch(ctx context.Context, c *call, a *jobArgs) (any, error) {
	told := ""
	for {
		raw, j, err := c.job(ctx, a.Job)
		if err != nil {
			return nil, err
		}
		if j.Code != nil {
			return raw, nil
		}
		if now := progressOf(j); now != told {
			told = now
			if !c.news(raw) {
				return nil, errUnread
			}
		}
		pause := time.NewTimer(watchPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, filch.Errorf(filch.Canceled, "the request was stopped")
		case <-pause.C:
		}
	}
}

// progressOf is the part of a job that watch reports changes of.
func progressOf(j *launcher.JobInfo) string {
	b, _ := json.Marshal(struct {
		State   string
		Tasks   launcher.TaskCounts
		Attempt filch.Attempt
		Nodes   []filch.NodeName
		Held    string
		Open    bool
	}{j.State, j.Tasks, j.Attempt, j.Nodes, j.Held, j.Open})
	return string(b)
}
