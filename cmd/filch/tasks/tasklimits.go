package tasks

import (
	"math"
	"strconv"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
)

// needFlags are the resources that a task takes.
type needFlags struct {
	cpus             int32
	counted          bool // cpus was given
	mem, gpus, limit string
}

// given is the value of -c; 0 without -c.
func (f *needFlags) given() int32 {
	if f.counted {
		return f.cpus
	}
	return 0
}

// lifeFlags set the start of tasks, and their retries.
type lifeFlags struct {
	retries, crashes int32
	once             bool
	dep, priority    string
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
	sp.Retries, sp.Once = f.retries, f.once
	sp.CrashLimit, sp.Sure = uint8(max(f.crashes, 1)), f.crashes == 0
	return nil
}

// queues fills in the place of the job among others, and the jobs to wait for.
func (f *lifeFlags) queues(s *mtc.Submission) error {
	class, err := strconv.ParseInt(f.priority, 10, 16)
	if err != nil {
		return filch.Errorf(filch.Invalid, "--priority %q is not a number from -32768 to 32767", f.priority)
	}
	s.Ticket.Class = int32(class)
	s.After, err = readDeps(f.dep)
	return err
}

// needs reads the resources that a task takes of a node.
func (f *needFlags) needs(sp *record.Spec) (err error) {
	if f.cpus < 1 {
		return filch.Errorf(filch.Invalid, "-c %d: a task takes at least 1 slot", f.cpus)
	}
	sp.Each = filch.Room{Slots: f.cpus}
	if f.mem != "" {
		if sp.Each.MemBytes, err = spec.Memory(f.mem); err != nil {
			return err
		}
	}
	if f.gpus != "" {
		if sp.Each.GPUs, err = spec.Positive(f.gpus); err != nil {
			return err
		}
	}
	if f.limit != "" {
		sp.Limit, err = spec.Time(f.limit)
	}
	return err
}
