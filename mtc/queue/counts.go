package queue

// Counts are numbers of a node's tasks by state.
type Counts struct {
	Waiting   int64 // for other tasks, of graphs that this node leads
	Dedicated int64 // ready, to be run here
	Shared    int64 // ready, may be stolen
	Frozen    int64 // offered to a thief
	Running   int64
	Complete  int64 // ended, not yet recorded
}

// Add adds p.
func (q *Counts) Add(p Counts) {
	q.Waiting += p.Waiting
	q.Dedicated += p.Dedicated
	q.Shared += p.Shared
	q.Frozen += p.Frozen
	q.Running += p.Running
	q.Complete += p.Complete
}
