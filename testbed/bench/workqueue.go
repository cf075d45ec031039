package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

//go:embed programs/workqueue.c
var workQueueManager []byte

// workQueue is a manager of Work Queue with its workers, which is told through
// one pipe what to run and tells through another that it is done.
type workQueue struct {
	dir string
	cmd *exec.Cmd
}

// workQueueWorkers is how many share the slots, at most.
const workQueueWorkers = 4

func newWorkQueue(b *bench, slots int) (*workQueue, error) {
	q := &workQueue{}
	if _, err := lookup("work_queue_worker"); err != nil {
		return q, err
	}
	exe, err := compile(b.scratch, "gcc", "workqueue", workQueueManager,
		"-lwork_queue", "-lchirp", "-ldttools", "-lcrypto", "-lssl", "-lz", "-lm", "-lpthread")
	if err == nil {
		q.dir, err = os.MkdirTemp(b.scratch, "workqueue")
	}
	if err != nil {
		return q, err
	}
	workers := min(workQueueWorkers, slots)
	argv, _ := apart(exe, strconv.Itoa(workers), strconv.Itoa(slots/workers), q.dir)
	q.cmd = exec.Command(argv[0], argv[1:]...)
	q.cmd.Stderr = b.err
	for _, end := range []string{"in", "out"} {
		if err := syscall.Mkfifo(filepath.Join(q.dir, end), 0o600); err != nil {
			return q, err
		}
		f, err := os.OpenFile(filepath.Join(q.dir, end), os.O_RDWR, 0)
		if err != nil {
			return q, err
		}
		defer f.Close()
		if end == "in" {
			q.cmd.Stdin = f
		} else {
			q.cmd.Stdout = f
		}
	}
	if err := q.cmd.Start(); err != nil {
		return q, err
	}
	raise(q.dir, q.end)
	return q, nil
}

// command has it run argv n times.
func (q *workQueue) command(n int, argv []string) []string {
	script := fmt.Sprintf(`echo "%d %s" >in && read bad <out && [ "$bad" = 0 ]`, n, strings.Join(argv, " "))
	return []string{"/bin/sh", "-c", "cd " + q.dir + " && " + script}
}

func (q *workQueue) end() { _ = q.cmd.Process.Kill() }

func (q *workQueue) close() {
	lower(q.dir)
	q.end()
	_ = q.cmd.Wait()
}
