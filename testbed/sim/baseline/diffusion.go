package baseline

import (
	"fmt"
	"time"
)

// Pile is a bag whose tasks read files of one size.
type Pile struct {
	Bag
	Inputs [][]int32 // files of each task
	Files  int
	Bytes  int64 // of a file
}

// AllPairs has two sets of files, and a task for each pair (MATRIX v2, IV.C.2).
func AllPairs(nodes, slots, files int, length time.Duration) Pile {
	p := Pile{Bag: Equal(1, 1, files*files, length), Files: 2 * files, Bytes: 12_000_000}
	p.Name, p.Nodes, p.Slots = fmt.Sprintf("all-pairs of %d files, tasks of %v", files, length), nodes, slots
	for i := range files * files {
		p.Inputs = append(p.Inputs, []int32{int32(i / files), int32(files + i%files)})
	}
	return p
}

// Stacking has images of 2 MB, each of which locality tasks of 158 ms read, in a random order
// (MATRIX v2, IV.C.1).
func Stacking(nodes, slots, each int, locality float64) Pile {
	p := Pile{Bag: Equal(nodes, slots, each, 158*time.Millisecond), Bytes: 2_000_000}
	p.Name = fmt.Sprintf("stacking, locality %v", locality)
	n := len(p.Lengths)
	p.Files = max(int(float64(n)/locality), 1)
	d := p.draws()
	order := make([]int32, n)
	for i := range order {
		j := d.N(i + 1)
		order[i] = order[j]
		order[j] = int32(i)
	}
	for _, i := range order {
		p.Inputs = append(p.Inputs, []int32{i % int32(p.Files)})
	}
	return p
}

// Diffusion is Falkon with data diffusion: a central scheduler that knows the files of all nodes, and
// gives a free slot the task of a window with most files there. Absent files come from the node that
// has the file, else from a shared file system, and stay.
type Diffusion struct {
	Window   int
	Overhead time.Duration // of a task, beside its transfers
	Shared   float64       // bytes a second of the shared file system, for all nodes
	Link     float64       // bytes a second of a node
	Storage  Storage
}

// Storage is where files are.
type Storage uint8

// The storages: files diffuse; all files are in the memory of all nodes from the begin; no file stays on a
// node.
const (
	Diffusing Storage = iota
	Active
	Parallel
)

// The three of figure 7 of MATRIX v2. The overhead of a task is fitted to 91 % with active storage. The
// file system has eight servers with 1 Gb/s each, the nodes have 1 Gb/s: both are assumed.
var (
	DataDiffusion = Diffusion{Window: 2500, Overhead: 9900 * time.Microsecond, Shared: 1e9, Link: 125e6}
	ActiveStorage = Diffusion{Window: 1, Overhead: 9900 * time.Microsecond, Storage: Active}
	ParallelFS    = Diffusion{Window: 1, Overhead: 9900 * time.Microsecond, Shared: 1e9, Link: 125e6, Storage: Parallel}
)

// diffusion is a run.
type diffusion struct {
	*world
	d      Diffusion
	p      *Pile
	window []int32
	next   int32
	arrive [][]time.Duration // by node and file: when the file is there; 0: never
	owned  []bool            // files that a node has
	shared time.Duration     // the file system is busy until then
	links  []time.Duration   // of each node
	moved  int64
}

// Run runs a pile, and returns the bytes that moved, too.
func (d Diffusion) Run(p *Pile) (Took, int64, error) {
	r := &diffusion{world: newWorld(&p.Bag, 0), d: d, p: p, owned: make([]bool, p.Files), links: make([]time.Duration, p.Nodes)}
	for range p.Nodes {
		r.arrive = append(r.arrive, make([]time.Duration, p.Files))
	}
	for range p.Slots {
		for _, n := range r.nodes {
			r.At(0, func() { r.give(n) })
		}
	}
	took, err := r.took()
	return took, r.moved, err
}

// give starts the best task of the window in a free slot.
func (r *diffusion) give(n *node) {
	for len(r.window) < r.d.Window && int(r.next) < len(r.p.Inputs) {
		r.window = append(r.window, r.next)
		r.next++
	}
	if len(r.window) == 0 {
		return
	}
	best, most := 0, -1
	for k, task := range r.window {
		has := 0
		for _, f := range r.p.Inputs[task] {
			if r.arrive[n.index][f] > 0 {
				has++
			}
		}
		if has > most {
			best, most = k, has
		}
		if has == len(r.p.Inputs[task]) {
			break
		}
	}
	task := r.window[best]
	r.window = append(r.window[:best], r.window[best+1:]...)
	r.messages += 2
	at := r.Now()
	for _, f := range r.p.Inputs[task] {
		at = max(at, r.fetch(n, f))
	}
	r.After(at+r.d.Overhead-r.Now(), func() { n.start(task, func() { r.give(n) }) })
}

// fetch is when a file is on a node. Transfers queue at the link of the node, and at the file system.
func (r *diffusion) fetch(n *node, f int32) time.Duration {
	if r.d.Storage == Active {
		return r.Now()
	}
	if at := r.arrive[n.index][f]; at > 0 {
		return at
	}
	r.moved += r.p.Bytes
	r.messages++
	at := max(r.Now(), r.links[n.index]) + span(r.p.Bytes, r.d.Link)
	if !r.owned[f] {
		r.shared = max(r.Now(), r.shared) + span(r.p.Bytes, r.d.Shared)
		at = max(at, r.shared)
	}
	r.links[n.index] = at
	if r.d.Storage == Diffusing {
		r.arrive[n.index][f], r.owned[f] = at, true
	}
	return at
}

// span is the time of a transfer.
func span(bytes int64, rate float64) time.Duration {
	return time.Duration(float64(bytes) / rate * float64(time.Second))
}

// PerTask is the time of a task of one slot (MATRIX v2, IV.B).
func (p *Pile) PerTask(t Took) time.Duration {
	return t.Makespan * time.Duration(p.Nodes*p.Slots) / time.Duration(len(p.Lengths))
}
