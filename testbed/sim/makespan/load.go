package makespan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Workflow is a workflow whose tasks take known times.
type Workflow struct {
	Name    string
	Nodes   []record.GraphNode // with all that a file states
	Lengths []time.Duration
	Spread  policy.Spreading // of a bag
	Stated  bool             // of a bag: the cores know the lengths
	Bound   []int            // the host of each task; nil: tasks run anywhere
}

// Load reads the workflow files of a folder with the folders dax and wfformat. The error
// says what is absent.
func Load(folder string) (list []Workflow, err error) {
	var files []string
	for _, pattern := range []string{"dax/*.xml", "wfformat/*.json"} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("cannot read workflows: %s is absent", filepath.Join(folder, pattern))
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	for _, name := range files {
		w, err := load(name)
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}

func load(name string) (w Workflow, err error) {
	f, err := os.Open(name)
	if err != nil {
		return w, err
	}
	defer f.Close()
	g, err := workflow.Load(f, workflow.Options{Name: filepath.Base(name)})
	if err != nil {
		return w, err
	}
	base := filepath.Base(name)
	w.Name = strings.TrimSuffix(base, filepath.Ext(base))
	for i := range g.Tasks {
		t := &g.Tasks[i]
		w.Lengths = append(w.Lengths, t.Cost)
		w.Nodes = append(w.Nodes, record.GraphNode{
			Name: t.Name, Parents: t.Parents, Bytes: g.InitialBytes(int32(i)), Output: g.OutputBytes(int32(i)), Length: t.Cost,
			Kind: strings.ToValidUTF8(t.Kind[:min(len(t.Kind), record.MaxKind)], ""),
		})
	}
	return w, nil
}

// work is the sum of all lengths.
func (w *Workflow) work() (sum time.Duration) {
	for _, d := range w.Lengths {
		sum += d
	}
	return sum
}

// output is the bytes that a task writes.
func (w *Workflow) output(i int32) int64 {
	if int(i) < len(w.Nodes) {
		return w.Nodes[i].Output
	}
	return 0
}

// told is a copy of the nodes with what is known.
func (w *Workflow) told(k Known) []record.GraphNode {
	list := slices.Clone(w.Nodes)
	for i := range list {
		if k != Sizes {
			list[i].Bytes, list[i].Output = 0, 0
		}
		if k != Lengths {
			list[i].Length = 0
		}
	}
	return list
}
