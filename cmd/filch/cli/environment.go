package cli

import (
	"errors"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/rlimit"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/slurmenv"
	"github.com/filch-hpc/filch/launcher/spec"
)

// rlimitsPropagated are the resource limits that ranks inherit from the user's
// shell, by Linux's numbers: all sixteen but RLIMIT_NICE and RLIMIT_RTPRIO, which
// cannot be raised back.
var rlimitsPropagated = [...]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15}

// Environment reads the variables, the working directory, the job and the task of
// this process for a request.
func Environment() (spec.Context, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return spec.Context{}, filch.Errorf(filch.Invalid, "cannot find the working directory: %s", ui.Cause(err)).
			WithHint("the directory may have been removed; cd to another one")
	}
	return spec.Context{Env: os.Environ(), Cwd: cwd, Job: OuterJob(), Task: outerTask(), ReadFile: ReadSmall, Submitter: submitter}, nil
}

// submitter describes this process, for SLURM_*.
func submitter() slurmenv.Submitter {
	s := slurmenv.Submitter{Known: true, User: UserName(), UID: os.Getuid(), GID: os.Getgid()}
	s.Dir, _ = os.Getwd()
	s.Host, _ = os.Hostname()
	s.Host, _, _ = strings.Cut(s.Host, ".")
	if n, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		s.Nice = 20 - n // the system call counts from 40 down
	}
	return s
}

// UserName is the name of the user of this process.
func UserName() string {
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}

// outerTask is the serial number, on its node, of the task around this process; 0
// outside of a task.
func outerTask() uint64 {
	n, _ := strconv.ParseUint(os.Getenv("FILCH_SERIAL"), 10, 64)
	return n
}

// OuterJob is the job that this process is a rank of; 0 outside of a job.
func OuterJob() filch.JobID {
	text := os.Getenv("FILCH_RUN") // of a rank of a gang
	if text == "" {
		text = os.Getenv("FILCH_JOB")
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0
	}
	return filch.JobID(n)
}

// ReadSmall reads a file that a command line names, up to a bound.
func ReadSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", errors.New(ui.Cause(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, spec.MaxMultiProgBytes+1))
	if err != nil {
		return "", errors.New(ui.Cause(err))
	}
	return string(b), nil
}

// ProcessLimits are the umask and the soft limits of this process, for a request.
func ProcessLimits() (umask uint32, limits []launcher.Rlimit) {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	for _, resource := range rlimitsPropagated {
		var r syscall.Rlimit
		if syscall.Getrlimit(int(resource), &r) != nil {
			continue
		}
		if resource == syscall.RLIMIT_NOFILE && rlimit.OpenFiles > 0 {
			r.Cur = rlimit.OpenFiles
		}
		limits = append(limits, launcher.Rlimit{Resource: resource, Soft: r.Cur})
	}
	return uint32(mask), limits
}
