package record

import "time"

// GraphNode is a task of a workflow.
type GraphNode struct {
	Name    string // for messages about cycles
	Parents []int32
	After   int           // of Parents, the last ones, which write no input of the task
	Bytes   int64         // of input that no parent makes
	Output  int64         // bytes of output, as stated; 0: unknown
	Length  time.Duration // stated run time; 0: unknown
	Kind    string        // tasks of one kind run the same program; "": unknown
	Body    []byte        // opaque
}

func (n *GraphNode) fields(c *Codec) {
	Text(c, &n.Name, MaxGraphName)
	n.parents(c)
	Amount(c, &n.Bytes)
	Amount(c, &n.Output)
	Amount(c, &n.Length)
	Text(c, &n.Kind, MaxKind)
	c.Rest(&n.Body)
}

// afterMark marks a parent that writes no input of the task.
const afterMark = MaxTasks + 1

// parents is the parents: those that write inputs, then the others, marked.
func (n *GraphNode) parents(c *Codec) {
	k, feed := 0, len(n.Parents)-n.After
	List(c, &n.Parents, MaxInputs, 1, func(p *int32, c *Codec) {
		v := uint64(*p)
		if c.Encodes && k >= feed {
			v += afterMark
		}
		v = c.UpTo(v, afterMark+MaxTasks)
		switch {
		case c.Encodes:
		case v >= afterMark:
			*p, n.After = int32(v-afterMark), n.After+1
		default:
			*p = int32(v)
			c.Require(n.After == 0)
		}
		k++
	})
}

// ParentsIn are the parents of a task in another job, by the indices there: those that the job has.
func (n *GraphNode) ParentsIn(index map[int32]int32) (parents []int32, after int) {
	for k, p := range n.Parents {
		if at, ok := index[p]; ok {
			parents = append(parents, at)
			if k >= len(n.Parents)-n.After {
				after++
			}
		}
	}
	return parents, after
}

// Encode is a node's payload.
func (n *GraphNode) Encode() []byte {
	c := Writing(32)
	n.fields(&c)
	return c.B
}

// DecodeGraphNode reads a node's payload.
func DecodeGraphNode(v []byte) (n GraphNode, err error) {
	c := Reading(v)
	n.fields(&c)
	return n, c.Done()
}

// MaxGraphName bounds a task's name in bytes.
const MaxGraphName = 1 << 10

// MaxKind bounds the name of a task's kind in bytes.
const MaxKind = 64

// MaxInputs bounds the parents of a workflow's task.
const MaxInputs = 4096
