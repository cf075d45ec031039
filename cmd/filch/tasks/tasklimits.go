package tasks

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/deps"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// needFlags are the resources that a task takes.
type needFlags struct {
	cpus       int32
	mem, limit string
	gpus       gpuFlags
	signal     string // before the limit
	where      whereFlags
}

// lifeFlags set the start of tasks, and their retries.
type lifeFlags struct {
	retries, crashes int32
	replicas         int32
	once             bool
	priority         string
	waitFlags
	retryFlags
}

// retryFlags set which failed tasks are tried again, and when.
type retryFlags struct{ retryDelay, codes string }

func (f *retryFlags) declare(p *pflag.FlagSet) {
	p.StringVar(&f.retryDelay, "retry-delay", "", "wait `TIME` before a retry (10s, 5m; a bare number is minutes), twice as long before the next, and so on up to 10m")
	p.StringVar(&f.codes, "retry-codes", "", "retry only after these exit codes: `75,100-110`")
}

// rule reads the options, nil if none is given.
func (f *retryFlags) rule() (*record.Retry, error) {
	if f.retryDelay == "" && f.codes == "" {
		return nil, nil
	}
	r := &record.Retry{}
	if f.retryDelay != "" {
		d, err := filch.ReadTime(f.retryDelay)
		if err != nil || d <= 0 || d > record.RetryDelayMax {
			return nil, filch.Errorf(filch.Invalid, "--retry-delay %q is not a time from 1ns to %s", f.retryDelay, record.RetryDelayMax).WithHint("for example --retry-delay 30s")
		}
		r.Delay = d
	}
	if f.codes != "" {
		codes, ok := workflow.ParseCodes(f.codes)
		if !ok {
			return nil, filch.Errorf(filch.Invalid, "--retry-codes %q is not a list of at most %d exit codes and ranges from 1 to 255", f.codes, record.MaxCodes).WithHint("for example --retry-codes 75,100-110")
		}
		r.Codes = codeRanges(codes)
	}
	return r, nil
}

func codeRanges(codes []workflow.Codes) (all []record.CodeRange) {
	for _, c := range codes {
		all = append(all, record.CodeRange(c))
	}
	return all
}

// ownRule is the rule of a task with options of its own, nil if the task has none.
func ownRule(n *workflow.Need, times bool) *record.Retry {
	r := &record.Retry{Delay: n.RetryDelay, Codes: codeRanges(n.RetryCodes)}
	if times && n.Retries != nil {
		r.Times = *n.Retries + 1
	}
	if r.Delay == 0 && r.Codes == nil && r.Times == 0 {
		return nil
	}
	return r
}

// starts fills in how many times a task may be started.
func (f *lifeFlags) starts(sp *record.Spec) error {
	switch {
	case f.retries < 0:
		return filch.Errorf(filch.Invalid, "--retries %d: the number of retries is at least 0", f.retries)
	case f.crashes < 0 || f.crashes > math.MaxUint8:
		return filch.Errorf(filch.Invalid, "--crash-limit takes 0 to %d, not %d", math.MaxUint8, f.crashes)
	case f.once && f.retries > 0:
		return filch.Errorf(filch.Invalid, "--once and --retries %d contradict each other", f.retries)
	}
	if err := f.copies(sp); err != nil {
		return err
	}
	rule, err := f.rule()
	if err != nil {
		return err
	}
	if rule != nil && f.retries == 0 {
		return filch.Errorf(filch.Invalid, "--retry-delay and --retry-codes say how to retry, and no task is retried").WithHint("--retries N retries a failed task up to N times")
	}
	sp.Retries, sp.Once, sp.Retry = f.retries, f.once, rule
	sp.CrashLimit, sp.Sure = uint8(max(f.crashes, 1)), f.crashes == 0
	return nil
}

// copies fills in how many copies a slow task may have.
func (f *lifeFlags) copies(sp *record.Spec) error {
	switch {
	case f.replicas < 0 || f.replicas > record.MaxReplicas:
		return filch.Errorf(filch.Invalid, "--replicas takes 0 to %d, not %d", record.MaxReplicas, f.replicas)
	case f.replicas > 0 && f.once:
		return filch.Errorf(filch.Invalid, "--once and --replicas %d contradict each other: a copy is a second start", f.replicas)
	}
	sp.Replicas = uint8(f.replicas)
	return nil
}

// copied fills in how many copies a slow task may have. The outputs of a copy appear with its
// end, or never, unless the tasks run in the folder itself.
func (f *runFlags) copied(sp *record.Spec) error {
	switch {
	case f.replicas < 0 || f.replicas > record.MaxReplicas:
		return filch.Errorf(filch.Invalid, "--replicas takes 0 to %d, not %d", record.MaxReplicas, f.replicas)
	case f.replicas == 0 || !f.copies && (sp.Once || f.inPlace):
		return nil
	case sp.Once:
		return filch.Errorf(filch.Invalid, "once: true and --replicas %d contradict each other: a copy is a second start", f.replicas)
	case f.inPlace:
		return filch.Errorf(filch.Invalid, "--replicas %d does not go with --in-place: a task and its copy would write the same files", f.replicas)
	}
	sp.Replicas = uint8(f.replicas)
	return nil
}

// alone returns an error for tasks that may have copies and write files that the copies would
// share, or run under a limit that the copies would exceed.
func (f *submitFlags) alone(s *submit.Job) error {
	why := ""
	switch {
	case f.replicas == 0:
	case f.worker:
		why = "a worker runs many tasks"
	case f.gangs():
		why = "a task of ranks has no copies"
	case s.Spec.Capped():
		why = "copies would take of the limit of -j, % or --resource"
	case f.stdout != "" && f.stdout != "none", f.stderr != "" && f.stderr != "none" && f.stderr != "-":
		why = "a task and its copy would write the same file of -o or -e; without them, filch logs has the output"
	}
	if why != "" {
		return filch.Errorf(filch.Invalid, "--replicas does not go with these options: %s", why)
	}
	return nil
}

// waitFlags set what a job waits for before it begins.
type waitFlags struct {
	dep, begin string
	deps       spec.Deps // as --dep says
}

func (f *waitFlags) declare(p *pflag.FlagSet) {
	p.StringVar(&f.dep, "dep", "", deps.Option)
	p.StringVar(&f.begin, "begin", "", deps.BeginOption)
}

// read reads the options.
func (f *waitFlags) read(s *record.Conditions) (err error) {
	if f.dep != "" {
		if f.deps, err = spec.ReadDeps(f.dep); err != nil {
			return ofOption("dep", err)
		}
	}
	if f.begin != "" {
		if s.Begin, err = spec.ReadBegin(f.begin, time.Now()); err != nil {
			return ofOption("begin", err)
		}
	}
	return nil
}

// queues fills in the place of the job among others, and the time to begin.
func (f *lifeFlags) queues(s *submit.Job) (err error) {
	if s.Ticket.Class, err = spec.Priority(f.priority); err != nil {
		return ofOption("priority", err)
	}
	return f.waitFlags.read(&s.Conditions)
}

// needs reads the resources that a task takes of a node.
func (f *needFlags) needs(sp *record.Spec) (err error) {
	if f.cpus < 1 {
		return filch.Errorf(filch.Invalid, "-c %d: a task takes at least 1 slot", f.cpus)
	}
	sp.Each = filch.Room{Slots: f.cpus}
	if err := f.where.read(sp); err != nil {
		return err
	}
	if f.mem != "" {
		if sp.Each.MemBytes, err = spec.Memory(f.mem); err != nil {
			return ofOption("mem", err)
		}
	}
	if err := f.gpus.read(sp); err != nil {
		return err
	}
	if f.limit != "" {
		if sp.Limit, err = spec.Time(f.limit); err != nil {
			return ofOption("time", err)
		}
	}
	return nil
}

// ofOption is the error of an option's value, with the name of the option.
func ofOption(name string, err error) error {
	e := filch.Errorf(filch.Invalid, "--%s: %s", name, err.Error())
	var told *filch.Error
	if errors.As(err, &told) {
		e.Hint = told.Hint
	}
	return e
}

// warning adds the signal before the time limit to the extra of an order, which may be nil.
func (f *submitFlags) warning(extra *launcher.OrderExtra, limit time.Duration) (*launcher.OrderExtra, error) {
	switch {
	case f.signal == "":
		return extra, nil
	case limit == 0 && f.fromJSON == "":
		return nil, filch.Errorf(filch.Invalid, "--signal needs a time limit").WithHint("add -t MINUTES")
	}
	sig, before, err := spec.Warning(f.signal)
	if err != nil {
		return nil, ofOption("signal", err)
	}
	if extra == nil {
		extra = &launcher.OrderExtra{}
	}
	to, _, prefixed := strings.Cut(f.signal, ":")
	extra.Warn = &launcher.TaskWarn{Signal: sig, Before: before, First: prefixed && strings.ContainsAny(to, "Bb")}
	return extra, nil
}
