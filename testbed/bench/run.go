package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// runTimeout ends a launch that hangs; it counts as failed.
const runTimeout = 120 * time.Second

// sample is what one run cost.
type sample struct {
	wall, cpu time.Duration
}

// bench is one session of measuring.
type bench struct {
	meter   *meter
	scratch string // everything that we write
	filch   string // the binary
	what    string // the workloads to launch, by their flags
	runs    int    // measured repetitions of each launch
	jobs    int    // launches between the two looks at the idle cost
	idle    time.Duration
	rate    time.Duration // how long each rate is measured
	err     *os.File      // stderr of what we start, for the report of a failure

	store storeWish
	many  taskWish
	dax   string // the workflow to replay

	watched watchWish
}

// spawn starts argv in dir without a shell, stdin and stdout at /dev/null.
func (b *bench) spawn(argv, env []string) (int, error) {
	path, err := lookup(argv[0])
	if err != nil {
		return 0, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	fds := []uintptr{null.Fd(), null.Fd(), b.err.Fd()}
	return syscall.ForkExec(path, argv, &syscall.ProcAttr{Dir: b.scratch, Env: env, Files: fds})
}

// await reaps pid and kills it when it takes longer than runTimeout.
func await(pid int) (syscall.WaitStatus, error) {
	timer := time.AfterFunc(runTimeout, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	defer timer.Stop()
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if err != syscall.EINTR {
			return status, err
		}
	}
}

// once runs argv and fails unless it exits with 0.
func (b *bench) once(argv, env []string) (sample, error) {
	at, _ := b.err.Seek(0, 1)
	cpu, start := b.meter.cpu(), time.Now()
	pid, err := b.spawn(argv, env)
	if err != nil {
		return sample{}, err
	}
	status, err := await(pid)
	s := sample{wall: time.Since(start), cpu: b.meter.cpu() - cpu}
	if err != nil {
		return s, err
	}
	if !status.Exited() || status.ExitStatus() != 0 {
		text := make([]byte, 2000)
		n, _ := b.err.ReadAt(text, at)
		return s, fmt.Errorf("%s: status %#x: %s", strings.Join(argv, " "), int(status), strings.TrimSpace(string(text[:n])))
	}
	return s, nil
}

// settle waits a moment for what a launch leaves behind (proxies that end,
// daemons that tidy), so that it is counted to the run that caused it.
const settle = 30 * time.Millisecond

// alternate measures each command in turn, runs times after one warm-up, and
// returns the medians. A command that fails is given up and yields no sample.
func (b *bench) alternate(cmds []command) ([]sample, []error) {
	all := make([][]sample, len(cmds))
	errs := make([]error, len(cmds))
	for round := range b.runs + 1 {
		for i, c := range cmds {
			if c.argv == nil || errs[i] != nil {
				continue
			}
			before := b.meter.cpu()
			s, err := b.once(c.argv, c.env)
			if err != nil {
				errs[i] = err
				continue
			}
			time.Sleep(settle)
			s.cpu = b.meter.cpu() - before
			if round > 0 {
				all[i] = append(all[i], s)
			}
		}
	}
	medians := make([]sample, len(cmds))
	for i, s := range all {
		if len(s) > 0 && errs[i] == nil {
			medians[i] = sample{
				wall: median(s, func(s sample) time.Duration { return s.wall }),
				cpu:  median(s, func(s sample) time.Duration { return s.cpu }),
			}
		}
	}
	return medians, errs
}

func median(s []sample, of func(sample) time.Duration) time.Duration {
	d := make([]time.Duration, len(s))
	for i := range s {
		d[i] = of(s[i])
	}
	slices.Sort(d)
	if n := len(d); n%2 == 0 {
		return (d[n/2-1] + d[n/2]) / 2
	}
	return d[len(d)/2]
}

// command is one launcher's way to do what a line of a table asks.
type command struct {
	argv, env []string
}

// lookup is exec.LookPath without its rules for relative names.
func lookup(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		p := filepath.Join(dir, name)
		if st, err := os.Stat(p); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}
