package api

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// submitArgs is a new job. The fields below Spread are of bags alone.
type submitArgs struct {
	envelope
	Argv  []string          `json:"argv" doc:"the program and its arguments; none: each line is a command for sh"`
	Name  string            `json:"name" doc:"of the job; none: the name of the program"`
	Cwd   string            `json:"cwd" doc:"the folder to run in, from the root"`
	Env   map[string]string `json:"env" doc:"the whole environment; none: that of the launcher"`
	Umask *uint32           `json:"umask" doc:"as a number; none: 18, which is 022 in octal"`
	Cpus  int32             `json:"cpus" doc:"slots of a task or rank; none: 1"`
	GPUs  string            `json:"gpus" doc:"GPUs of a task or rank: 1, 0.25, a100:2"`
	Mem   string            `json:"mem" doc:"memory of a task, or of a run on each node: 4G"`
	Time  string            `json:"time" doc:"limit: 90s, 10m, 1h30m"`
	Ranks int32             `json:"ranks" doc:"a run of so many ranks; 0: a bag of tasks"`
	Nodes string            `json:"nodes" doc:"of a run: on so many nodes, 2 or 2-4"`
	MPI   string            `json:"mpi" doc:"of a run: how MPI wires up, as --mpi of filch run; none given: auto"`

	Tasks   int32    `json:"tasks" doc:"of a bag without lines: so many tasks, with the numbers from 0 in FILCH_TASK; none: 1"`
	Lines   []string `json:"lines" doc:"of a bag: a task for each line, in FILCH_LINE"`
	Worker  bool     `json:"worker" doc:"argv is a worker, which reads the lines: see docs/tasks.md"`
	Open    bool     `json:"open" doc:"add brings more tasks until close"`
	AtOnce  int32    `json:"at_once" doc:"so many tasks run at a time; 0: no limit"`
	Retries int32    `json:"retries" doc:"a task that failed is tried again so often"`
	Crashes *int32   `json:"crash_limit" doc:"a task is given up after so many starts whose node died; none: 5"`
	Once    bool     `json:"once" doc:"no task starts twice"`
	Copies  int32    `json:"replicas" doc:"copies of a slow task on idle nodes"`
	Keep    string   `json:"keep" doc:"which output the nodes keep: all, failed, none; none given: all"`
}

// submitted is the result of submit.
type submitted struct {
	Job   filch.JobID `json:"job"`
	Name  string      `json:"name"`
	Tasks int32       `json:"tasks"`
}

func submitJob(ctx context.Context, c *call, a *submitArgs) (any, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	if a.Ranks > 0 {
		return a.submitRun(ctx, c)
	}
	return a.submitBag(ctx, c)
}

func (a *submitArgs) check() error {
	switch {
	case a.Ranks < 0 || a.Tasks < 0 || a.AtOnce < 0 || a.Retries < 0 || a.Copies < 0 || a.Cpus < 0:
		return filch.Errorf(filch.Invalid, "a number of the job is below 0")
	case !filepath.IsAbs(a.Cwd):
		return filch.Errorf(filch.Invalid, "the folder cwd %.200q does not begin at the root", a.Cwd).WithHint("the launcher has another folder than its clients")
	case len(a.Argv) > 0 && a.Argv[0] == "":
		return filch.Errorf(filch.Invalid, "the name of the program is empty")
	case len(a.Argv) == 0 && (a.Ranks > 0 || len(a.Lines) == 0 && !a.Open || a.Worker):
		return filch.Errorf(filch.Invalid, "there is nothing to run: argv has no program")
	case a.Ranks > 0 && (a.Tasks > 0 || len(a.Lines) > 0 || a.Worker || a.Open || a.AtOnce > 0 || a.Retries > 0 || a.Crashes != nil || a.Once || a.Copies > 0 || a.Keep != ""):
		return filch.Errorf(filch.Invalid, "ranks makes a run, and a run takes no field of a bag")
	case a.Ranks == 0 && a.Nodes+a.MPI != "":
		return filch.Errorf(filch.Invalid, "nodes and mpi are for runs")
	case a.Tasks > 0 && (len(a.Lines) > 0 || a.Open):
		return filch.Errorf(filch.Invalid, "tasks does not go with lines or open")
	case a.Once && (a.Retries > 0 || a.Copies > 0):
		return filch.Errorf(filch.Invalid, "once contradicts retries and replicas")
	case a.Copies > 0 && (a.Worker || a.AtOnce > 0):
		return filch.Errorf(filch.Invalid, "replicas goes neither with worker nor with at_once")
	}
	for _, w := range a.Argv {
		if strings.IndexByte(w, 0) >= 0 {
			return filch.Errorf(filch.Invalid, "a word of argv has a zero byte")
		}
	}
	for k, v := range a.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(v, 0) >= 0 {
			return filch.Errorf(filch.Invalid, "env has no variable %.40q", k)
		}
	}
	return nil
}

// environ is the environment of the job.
func (a *submitArgs) environ() (list []string) {
	if a.Env == nil {
		return spec.WithoutGPUs(os.Environ())
	}
	for k, v := range a.Env {
		list = append(list, k+"="+v)
	}
	return spec.WithoutGPUs(list)
}

// umaskUsual is the usual file mode mask.
const umaskUsual = 0o022

func (a *submitArgs) umask() uint32 {
	if a.Umask == nil {
		return umaskUsual
	}
	return *a.Umask & 0o777
}

func (a *submitArgs) submitRun(ctx context.Context, c *call) (any, error) {
	words := []string{"--detach", "-n", strconv.Itoa(int(a.Ranks)), "-c", strconv.Itoa(int(max(a.Cpus, 1)))}
	for _, o := range [...][2]string{{"-N", a.Nodes}, {"--mem", a.Mem}, {"-t", a.Time}, {"-J", a.Name}, {"--gpus-per-task", a.GPUs}, {"--mpi", a.MPI}} {
		if o[1] != "" {
			words = append(words, o[0], o[1])
		}
	}
	r, err := spec.Parse(append(words, a.Argv[0])) // Argv may have a colon, which is a word to Parse
	if err != nil {
		return nil, err
	}
	r.Argv = a.Argv
	if _, err := r.Finish(spec.Context{Env: a.environ(), Cwd: a.Cwd}); err != nil {
		return nil, err
	}
	r.Order.IO.StdinMode, r.Order.Umask = launcher.StdinNone, a.umask()
	if r.Request.Order, err = wire.Marshal(&r.Order); err != nil {
		return nil, err
	}
	if n := len(r.Request.Order); n > launcher.MaxOrderBytes {
		return nil, filch.Errorf(filch.Invalid, "the command and its environment have %d bytes, %d at most", n, launcher.MaxOrderBytes)
	}
	conn, err := c.launcher.Dial()
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, conn.Close)()
	run, err := conn.Submit(&r.Request)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer run.Close()
	for {
		event, err := run.Next()
		if err != nil {
			return nil, err
		}
		switch e := event.(type) {
		case launcher.Accepted:
			return submitted{e.Job, r.Request.Name, a.Ranks}, nil
		case launcher.Refused:
			return nil, &e.Err
		}
	}
}

// bag is the job of tasks as the launcher takes it.
func (a *submitArgs) bag() (*submit.Job, error) {
	s := &submit.Job{Name: a.Name, Open: a.Open, Total: max(a.Tasks, 1)}
	if s.Name == "" && len(a.Argv) > 0 {
		s.Name = filepath.Base(a.Argv[0])
	} else if s.Name == "" {
		s.Name = "tasks"
	}
	sp := &s.Spec
	sp.Like, sp.Firm, sp.Cap, sp.Retries, sp.Once = spec.Like(a.Name, a.Argv), a.Worker, a.AtOnce, a.Retries, a.Once
	sp.Each.Slots, sp.CrashLimit = max(a.Cpus, 1), record.CrashLimit
	if n := a.Crashes; n != nil {
		if *n < 0 || *n > math.MaxUint8 {
			return nil, filch.Errorf(filch.Invalid, "crash_limit is %d: it takes 0 to %d", *n, math.MaxUint8)
		}
		sp.CrashLimit, sp.Sure = uint8(max(*n, 1)), *n == 0
	}
	if a.Copies > record.MaxReplicas {
		return nil, filch.Errorf(filch.Invalid, "replicas is %d, at most %d", a.Copies, record.MaxReplicas)
	}
	sp.Replicas = uint8(a.Copies)
	if err := a.needs(sp); err != nil {
		return nil, err
	}
	keep, ok := map[string]launcher.Keep{"": launcher.KeepAll, "all": launcher.KeepAll, "failed": launcher.KeepFailed, "none": launcher.KeepNone}[a.Keep]
	if !ok {
		return nil, filch.Errorf(filch.Invalid, "keep is %.40q, and is one of all, failed, none", a.Keep)
	}
	if a.Open || len(a.Lines) > 0 {
		sp.Payloads = true
		lines, err := payloads(a.Lines)
		if err != nil {
			return nil, err
		}
		s.Lines, s.Total = lines, int32(len(lines))
	}
	var err error
	sp.Body, err = wire.EncodeOrder(&launcher.TaskOrder{
		Name: s.Name, Argv: a.Argv, Cwd: a.Cwd, Env: spec.WithCPUs(a.environ(), nil, nil, a.Cpus), Umask: a.umask(),
		KillWait: launcher.TaskGrace, Worker: a.Worker, Keep: keep,
	}, nil)
	return s, err
}

// needs reads what a task takes.
func (a *submitArgs) needs(sp *record.Spec) (err error) {
	if a.Mem != "" {
		if sp.Each.MemBytes, err = spec.Memory(a.Mem); err != nil {
			return about("mem", err)
		}
	}
	if a.Time != "" {
		if sp.Limit, err = spec.Time(a.Time); err != nil {
			return about("time", err)
		}
	}
	if a.GPUs != "" {
		kind, n, err := spec.Devices(a.GPUs)
		if err != nil {
			return about("gpus", err)
		}
		sp.Each.GPUs, sp.Nodes = n, sp.Nodes.With(filch.Constraint(kind))
	}
	return nil
}

// about is an error of the value of a field.
func about(field string, err error) error {
	e := failed(err)
	return filch.Errorf(filch.Invalid, "%s: %s", field, e.Text).WithHint("%s", e.Hint)
}

// payloads are the payloads of tasks with a line each.
func payloads(lines []string) (list [][]byte, err error) {
	for i, l := range lines {
		switch {
		case strings.ContainsAny(l, "\n\x00"):
			return nil, filch.Errorf(filch.Invalid, "line %d has an end of line or a zero byte inside", i)
		case len(l) >= record.MaxPayload:
			return nil, filch.Errorf(filch.Invalid, "line %d has %d bytes, at most %d", i, len(l), record.MaxPayload-1).WithHint("put long values into a file, and the name of the file into the line")
		}
		list = append(list, append([]byte{launcher.PayloadLine}, l...))
	}
	return list, nil
}

func (a *submitArgs) submitBag(ctx context.Context, c *call) (any, error) {
	s, err := a.bag()
	if err != nil {
		return nil, err
	}
	conn, err := c.launcher.Dial()
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, conn.Close)()
	defer conn.Close()
	t, err := conn.SubmitTasks(s)
	if err != nil {
		return nil, err
	}
	news, err := t.Await(launcher.TasksAccepted, 0)
	if err != nil {
		return nil, err
	}
	return submitted{news.Job, s.Name, s.Total}, nil
}

// addArgs are tasks for an open job.
type addArgs struct {
	envelope
	Job   filch.JobID `json:"job" doc:"the open job"`
	Lines []string    `json:"lines" doc:"a task for each line"`
}

// added is the result of add.
type added struct {
	First int32 `json:"first"`
	Added int   `json:"added"`
}

func add(ctx context.Context, c *call, a *addArgs) (any, error) {
	lines, err := payloads(a.Lines)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, filch.Errorf(filch.Invalid, "there is nothing to add: lines is empty")
	}
	// The token is random: other clients may add tasks to the job too.
	token := rand.Int32N(record.MaxTasks-1) + 1
	var news launcher.TaskNews
	err = c.with(ctx, func(conn *client.Client) error {
		t := conn.TasksOf(a.Job)
		if err := t.Grow(wire.TaskGrow{Token: token, Lines: lines}); err != nil {
			return err
		}
		news, err = t.Await(launcher.TasksAdded, token)
		return err
	})
	return added{news.Base, len(lines)}, err
}
