package proc

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// Meter turns the kernel's account of ended children into a usage. The kernel counts into
// the peak of a child the peak that this process had at the fork: until the exec the child
// shares our memory. A child with no larger peak needed at most that much.
type Meter struct {
	ownKiB int64 // the peak of this process, when last read
	read   time.Time
}

// meterEvery is how often this process reads its own peak at most: the read costs as much
// as a twentieth of a fork.
const meterEvery = 50 * time.Millisecond

// Usage is the usage of an ended child and of the children that the child waited for.
func (m *Meter) Usage(ru *unix.Rusage) filch.Usage {
	return filch.Usage{
		User: time.Duration(ru.Utime.Nano()), System: time.Duration(ru.Stime.Nano()),
		PeakBytes: ru.Maxrss << 10, AtMost: m.mayBeOurs(ru.Maxrss),
	}
}

// mayBeOurs reports whether a peak may be the peak of this process at the fork.
func (m *Meter) mayBeOurs(kib int64) bool {
	if kib <= m.ownKiB {
		return true
	}
	if time.Since(m.read) < meterEvery {
		// At least our own peak, and cheap: our starter's memory counts too.
		var own unix.Rusage
		if unix.Getrusage(unix.RUSAGE_SELF, &own) == nil && kib > own.Maxrss {
			return false
		}
	}
	m.ownKiB, m.read = peakKiB(), time.Now()
	return kib <= m.ownKiB
}

// peakKiB is the peak of this process's resident memory since its exec. Getrusage would
// count the memory of the process that started this one.
func peakKiB() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, b, _ = bytes.Cut(b, []byte("\nVmHWM:"))
	line, _, _ := bytes.Cut(b, []byte("\n"))
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(line, []byte("kB")))), 10, 64)
	return n
}
