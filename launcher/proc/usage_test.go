package proc_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"golang.org/x/sys/unix"
)

// spentMiB and spentCPU are what a process of [helperSpend] uses at least.
const (
	spentMiB = 96
	spentCPU = 60 * time.Millisecond
)

// helperSpend touches memory, and computes until the kernel has counted the time.
func helperSpend([]string) int {
	b, err := unix.Mmap(-1, 0, spentMiB<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 1
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = byte(i)
	}
	for n := 0; ; n++ {
		var ru unix.Rusage
		if n%1000 == 0 {
			if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil || time.Duration(ru.Utime.Nano()+ru.Stime.Nano()) > spentCPU && ru.Utime.Nano() > 0 {
				return 0
			}
		}
		b[n%len(b)]++
	}
}

func checkSpent(t *testing.T, u filch.Usage) {
	t.Helper()
	if cpu := u.User + u.System; cpu < spentCPU || cpu > time.Minute || u.User == 0 {
		t.Errorf("it used %v in user mode and %v in the kernel, want more than %v", u.User, u.System, spentCPU)
	}
	if u.PeakBytes < spentMiB<<20 || u.PeakBytes > spentMiB<<22 || u.AtMost {
		t.Errorf("its peak is %d bytes, a bound: %v; want at least %d MiB, counted", u.PeakBytes, u.AtMost, spentMiB)
	}
}

// A small program shows the memory of its starter: a bound, not a count.
func checkSmall(t *testing.T, u filch.Usage) {
	t.Helper()
	if u.PeakBytes == 0 || u.PeakBytes >= spentMiB<<20 || !u.AtMost {
		t.Errorf("the peak of true is %d bytes, a bound: %v; want less than %d MiB, as a bound", u.PeakBytes, u.AtMost, spentMiB)
	}
}

func TestARunnerMeasuresTasks(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) { o.Argv = []string{"true"} })
	first := c.start(launcher.TaskStart{Argv: argv("spend")}, launcher.TaskStart{})
	checkSpent(t, c.end(first).Usage)
	checkSmall(t, c.end(first+1).Usage)
	// The children for which a task waits are part of the task.
	checkSpent(t, c.end(c.start(launcher.TaskStart{Argv: append([]string{"sh", "-c", `"$@"; exit 3`, "sh"}, argv("spend")...)})).Usage)
}

func TestAKeeperMeasuresRanks(t *testing.T) {
	b := newBoss(t)
	b.run(newOrder(2, argv("spend")...))
	for i, e := range b.untilDone().ends {
		t.Run(strconv.Itoa(i), func(t *testing.T) { checkSpent(t, e.Usage) })
	}
	b.forget()
	b.run(newOrder(1, "/bin/true"))
	for _, e := range b.untilDone().ends {
		checkSmall(t, e.Usage)
	}
}
