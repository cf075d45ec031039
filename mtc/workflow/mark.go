package workflow

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Mark identifies the work of a task: 16 bytes of a SHA-256 over the command, its own
// environment and streams, slots, GPUs and ranks, the names of inputs and outputs, the content
// of inputs that no task writes, and the marks of all tasks before. So the mark of a task
// also changes when a task before changes. Memory, limits, retries and names of tasks are
// no part of the mark: these do not change the outputs.
type Mark [16]byte

// Marks is the mark of every task. Sum identifies the content of a file that no task
// writes; Marks calls sum once for each such file that a task reads.
func (g *Graph) Marks(sum func(file int32) []byte) []Mark {
	marks := make([]Mark, len(g.Tasks))
	sums := map[int32][]byte{}
	var b []byte
	for _, t := range g.Order() {
		b = g.appendWork(b[:0], t)
		for _, f := range g.Tasks[t].Inputs {
			file := &g.Files[f]
			b = appendText(b, file.Path)
			if file.Writer >= 0 {
				b = append(b, 't')
				b = append(b, marks[file.Writer][:]...)
				continue
			}
			if _, ok := sums[f]; !ok {
				sums[f] = sum(f)
			}
			b = appendText(append(b, 'f'), string(sums[f]))
		}
		b = binary.AppendUvarint(b, uint64(len(g.Tasks[t].Parents)))
		for _, p := range g.Tasks[t].Parents {
			b = append(b, marks[p][:]...)
		}
		full := sha256.Sum256(b)
		copy(marks[t][:], full[:])
	}
	return marks
}

// appendWork appends everything of a task's mark except its inputs and parents.
func (g *Graph) appendWork(b []byte, t int32) []byte {
	task := &g.Tasks[t]
	run := &task.Run
	b = appendTexts(b, run.Argv)
	b = appendTexts(b, run.Env)
	for _, s := range []string{run.Cwd, run.Stdin, run.Stdout, run.Stderr, task.Need.GPUs} {
		b = appendText(b, s)
	}
	b = appendGang(binary.AppendUvarint(b, uint64(max(task.Need.CPUs, 1))), task)
	if g.Replay {
		b = appendText(b, task.Name+" "+task.Cost.String())
	}
	b = binary.AppendUvarint(b, uint64(len(task.Outputs)))
	for _, f := range task.Outputs {
		b = appendText(b, g.Files[f].Path)
		if g.Replay {
			b = appendText(b, strconv.FormatInt(g.Files[f].Size, 10))
		}
	}
	return binary.AppendUvarint(b, uint64(len(task.Inputs)))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, all []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = appendText(b, s)
	}
	return b
}
