package workflow

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Limits on the contents of a workflow file; a file above a limit is an error with the
// limit in its text. The limits keep a hostile or broken file from taking the machine's
// memory.
const (
	InputMax   = 512 << 20 // bytes of a WfFormat or DAX file
	NativeMax  = 64 << 20  // bytes of a file of our own form, held as a tree
	TasksMax   = 1 << 20
	FilesMax   = 4 << 20
	EdgesMax   = 16 << 20 // declared and from data, and uses of files
	NameMax    = 255      // bytes of a task's name, which may become a file's name
	PathMax    = 1023     // bytes of a file's path
	NestingMax = 32       // levels of lists and maps
	WordsMax   = 64 << 10 // words of a command
	TextMax    = 1 << 20  // bytes of a command with its environment
	CPUsMax    = 1 << 16
	SizeMax    = int64(1) << 56            // bytes of a file, or of memory
	CostMax    = 1_000_000_000             // seconds of a task: 31 years
	CostMin    = time.Nanosecond           // of a task whose stated run time is 0
	ScaleMax   = 1_000_000                 // of times and sizes
	limitMax   = 10 * 365 * 24 * time.Hour // of a task's time limit
)

// Graph is a workflow in neutral form. Tasks and files are named by their
// index in the two lists.
type Graph struct {
	Name   string
	Format string // for people: "WfFormat 1.5", "DAX 2.1", "filch 1"
	Replay bool   // tasks have no command: a replay plays their times and sizes
	Tasks  []Task
	Files  []File
	Traps  []Trap // oddities and their treatment, in the order of [TrapKinds]
}

// Task is a task of a [Graph].
type Task struct {
	Name    string // unique in its graph
	Kind    string // name of the program, for people; tasks may share a kind
	Line    int    // line of the task in the file
	Run     Command
	Need    Need
	Cost    time.Duration // stated run time, already scaled; 0 unknown
	Inputs  []int32       // files, ascending, once each
	Outputs []int32       // files, ascending, once each, disjoint from Inputs
	After   []int32       // tasks named as parents in the file, ascending
	Parents []int32       // tasks that must end before: After, and writers of Inputs
	// Of a gang: each output is on one of the nodes of its ranks, else all are on the node
	// of rank 0.
	AllNodes bool
}

// File is a file that tasks read or write.
type File struct {
	Path   string // inside the sandbox: relative, clean, safe to create
	Origin string // name in the workflow file
	Size   int64  // bytes, already scaled; -1 unknown
	Writer int32  // the only writer; -1: the file must exist before
}

// Command is what a task executes. Stdin, Stdout and Stderr are files, empty
// for the default of the job.
type Command struct {
	Argv   []string
	Env    []string // NAME=VALUE, added to the job's
	Cwd    string   // empty: the job's
	Stdin  string
	Stdout string
	Stderr string
}

// Need is a task's resources, and the treatment of a bad end. Zero values mean the job's
// default.
type Need struct {
	CPUs      int32
	MemBytes  int64
	GPUs      string // "2", or "KIND:2"
	TimeLimit time.Duration
	Retries   *int32
	// As the options of filch submit: where the task may run, and what the task takes of
	// resources that the site names.
	Nodelist, Exclude, Constraint, Resource string
	Once                                    bool
	Gang                                    Gang // without ranks: one process

	RetryDelay time.Duration // before the first retry
	RetryCodes []Codes       // only these are retried; none: all
}

// Trap is a common oddity of real workflow files, and its treatment.
type Trap struct {
	Kind     string   `json:"kind"`
	Count    int      `json:"count"`
	Text     string   `json:"text"`
	Examples []string `json:"examples"` // at most three
}

// ParentsOf lists the parents of a task, the writers of its inputs first, and counts the others.
func (g *Graph) ParentsOf(task int32) (parents []int32, after int) {
	t := &g.Tasks[task]
	var writers, rest []int32
	for _, f := range t.Inputs {
		writers = append(writers, g.Files[f].Writer)
	}
	slices.Sort(writers)
	for _, p := range t.Parents {
		if _, writes := slices.BinarySearch(writers, p); writes {
			parents = append(parents, p)
		} else {
			rest = append(rest, p)
		}
	}
	return append(parents, rest...), len(rest)
}

// Children is the graph's edges from parent to child: the children of task t are
// list[start[t]:start[t+1]], ascending.
func (g *Graph) Children() (start, list []int32) {
	return g.turned(len(g.Tasks), func(t *Task) []int32 { return t.Parents })
}

// Readers lists the readers of every file, in the form of [Graph.Children].
func (g *Graph) Readers() (start, list []int32) {
	return g.turned(len(g.Files), func(t *Task) []int32 { return t.Inputs })
}

// turned lists, for each of n things, the tasks for which named returns the thing.
func (g *Graph) turned(n int, named func(*Task) []int32) (start, list []int32) {
	start = make([]int32, n+1)
	for i := range g.Tasks {
		for _, k := range named(&g.Tasks[i]) {
			start[k+1]++
		}
	}
	for i := range n {
		start[i+1] += start[i]
	}
	list = make([]int32, start[n])
	next := slices.Clone(start)
	for i := range g.Tasks {
		for _, k := range named(&g.Tasks[i]) {
			list[next[k]] = int32(i)
			next[k]++
		}
	}
	return start, list
}

// InitialBytes is the total known size of the inputs of task t that no task writes.
func (g *Graph) InitialBytes(t int32) int64 {
	total := int64(0)
	for _, f := range g.Tasks[t].Inputs {
		if file := &g.Files[f]; file.Writer < 0 && file.Size > 0 {
			total = addSize(total, file.Size)
		}
	}
	return total
}

// OutputBytes is the total known size of the outputs of task t.
func (g *Graph) OutputBytes(t int32) int64 {
	total := int64(0)
	for _, f := range g.Tasks[t].Outputs {
		total = addSize(total, max(g.Files[f].Size, 0))
	}
	return total
}

// CheckInputs asks for the size of every file that no task writes. CheckInputs fails at
// the first missing file, with the name of a task that reads the file. The returned copy
// of the files' list has the sizes that were unknown.
func (g *Graph) CheckInputs(size func(path string) (int64, error)) ([]File, error) {
	files := slices.Clone(g.Files)
	start, list := g.Readers()
	for i := range files {
		f := &files[i]
		if f.Writer >= 0 || start[i] == start[i+1] {
			continue
		}
		n, err := size(f.Path)
		if err != nil {
			t := &g.Tasks[list[start[i]]]
			return nil, filch.Errorf(filch.Invalid, "task %s: its input %s is written by no task and is not there: %v", quote(t.Name), quote(f.Path), err).
				WithHint("create the file, or list it in the outputs of a task")
		}
		if f.Size < 0 {
			f.Size = n
		}
	}
	return files, nil
}
