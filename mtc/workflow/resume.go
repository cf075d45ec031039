package workflow

import "github.com/filch-hpc/filch"

// Past is the last earlier run of a task.
type Past struct {
	State filch.State // Waiting: the task has no earlier run
	Mark  Mark        // zero: not recorded
}

// Presence tells whether a file that a task wrote earlier can be used again.
type Presence uint8

// The presences.
const (
	Unasked Presence = iota
	Present
	Missing // or changed
)

// Reason is why a task runs again.
type Reason struct {
	Why  Why
	Task int32       // WhyAfter: the task before, which runs again
	File int32       // WhyFile: the file
	Old  filch.State // WhyState: the earlier state
}

// Why is a kind of [Reason].
type Why uint8

// The kinds of reasons. WhyNot is the zero value: the task was done before.
const (
	WhyNot     Why = iota
	WhyNew         // no earlier run has the task
	WhyState       // the earlier run did not end well
	WhyChanged     // the task has another mark, and no task before runs again
	WhyFile        // an output is needed, and is missing or was changed
	WhyAfter       // a task before runs again
)

// Resume finds the tasks to run again: tasks without an earlier run that ended well under
// the same mark, tasks whose outputs are needed and are missing, and all tasks after
// these. An output is needed if wanted reports true, or if a task that runs again reads
// the output.
//
// Presence tells about a file with a writer. For files that presence has not asked about,
// Resume returns their indices, and the reasons are preliminary: the caller asks, and
// calls Resume again. There are at most as many rounds as levels.
func (g *Graph) Resume(marks []Mark, past []Past, wanted func(file int32) bool, presence func(file int32) Presence) (again []Reason, ask []int32) {
	r := resumption{g: g, marks: marks, past: past, presence: presence, again: make([]Reason, len(g.Tasks)), asked: map[int32]bool{}}
	r.start, r.list = g.Children()
	order := g.Order()
	for _, t := range order {
		if r.again[t].Why != WhyNot {
			continue // after a task that runs again
		}
		if why := r.own(t); why.Why != WhyNot {
			r.add(t, why)
			r.settle()
		}
	}
	for _, t := range order {
		for _, f := range g.Tasks[t].Outputs {
			if r.again[t].Why == WhyNot && wanted(f) {
				r.need(f)
				r.settle()
			}
		}
	}
	return r.again, r.ask
}

// resumption is the state of [Graph.Resume].
type resumption struct {
	g           *Graph
	marks       []Mark
	past        []Past
	start, list []int32 // children
	presence    func(file int32) Presence
	again       []Reason
	fresh       []int32 // tasks added to again, whose children and inputs are still to be looked at
	ask         []int32
	asked       map[int32]bool
}

func (r *resumption) add(t int32, why Reason) {
	if r.again[t].Why == WhyNot {
		r.again[t] = why
		r.fresh = append(r.fresh, t)
	}
}

// own returns the reason that a task has of its own to run again, without regard to files and
// to tasks before.
func (r *resumption) own(t int32) Reason {
	switch p := r.past[t]; {
	case p.State == filch.Waiting:
		return Reason{Why: WhyNew}
	case p.State != filch.OK:
		return Reason{Why: WhyState, Old: p.State}
	case p.Mark != r.marks[t] || p.Mark == Mark{}:
		return Reason{Why: WhyChanged}
	}
	return Reason{}
}

// need makes sure of a file of a task that does not run again. The file of a task with a
// reason of its own does not count: nobody asks for the file.
func (r *resumption) need(f int32) {
	if w := r.g.Files[f].Writer; r.own(w).Why != WhyNot {
		r.add(w, r.own(w))
		return
	}
	switch r.presence(f) {
	case Missing:
		r.add(r.g.Files[f].Writer, Reason{Why: WhyFile, File: f})
	case Unasked:
		if !r.asked[f] {
			r.asked[f] = true
			r.ask = append(r.ask, f)
		}
	}
}

// settle adds the children of added tasks, and the writers of their missing inputs.
func (r *resumption) settle() {
	for len(r.fresh) > 0 {
		t := r.fresh[0]
		r.fresh = r.fresh[1:]
		for _, c := range r.list[r.start[t]:r.start[t+1]] {
			r.add(c, Reason{Why: WhyAfter, Task: t})
		}
		for _, f := range r.g.Tasks[t].Inputs {
			if w := r.g.Files[f].Writer; w >= 0 && r.again[w].Why == WhyNot {
				r.need(f)
			}
		}
	}
}
