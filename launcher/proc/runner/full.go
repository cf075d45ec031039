package runner

import (
	"fmt"
	"path/filepath"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
)

// fullBytes is the free space in bytes below which a disk counts as full: programs that
// write by blocks fail a little earlier than at zero.
const fullBytes = 256 << 10

// blame finds the disk that may be the reason why a task failed, or whose output was cut,
// and returns the reason for people, "" for none. blame costs nothing for a task that
// ended well and has all its output.
func (k *keeping) blame(t *task, e *launcher.TaskEnd) string {
	node := k.runner.place.Node
	if e.Cut && output.Overlong(e.Bytes) {
		return fmt.Sprintf("%s keeps the first and the last %d MiB of a stream; submit with -o FILE to keep all", node, output.KeptMax>>21)
	}
	if e.Cut {
		free, _, err := output.Disk(k.dir)
		if err != nil {
			free, _, _ = output.Disk(k.runner.place.Dir)
		}
		return fmt.Sprintf("no space for all output of tasks on %s: %d bytes are free on the disk of %s, and filch leaves some for its records; make room there, or submit with -o FILE on another disk", node, free, k.runner.place.Dir)
	}
	if e.Kind != launcher.CauseExit {
		return ""
	}
	dirs := []string{t.start.Cwd}
	if t.out != nil && !t.out.piped() {
		dirs = append(dirs, k.runner.place.Dir)
	}
	for i, pattern := range []string{t.order.what.Stdout, t.order.what.Stderr} {
		if name := t.stream(i+1, pattern); name != "" && name != "-" && name != launcher.NoFile {
			dirs = append(dirs, filepath.Dir(name))
		}
	}
	for _, dir := range dirs {
		if free, _, err := output.Disk(dir); err == nil && free < fullBytes {
			return fmt.Sprintf("the disk of %s on %s is full: %d bytes are free; make room there, and run the task again with filch retry %d", dir, node, free, t.start.Job)
		}
	}
	return ""
}
