package record

import "time"

// GraphNode is a task of a workflow.
type GraphNode struct {
	Name    string // for messages about cycles
	Parents []int32
	Bytes   int64         // of input that no parent makes
	Output  int64         // bytes of output, as stated; 0: unknown
	Length  time.Duration // stated run time; 0: unknown
	Kind    string        // tasks of one kind run the same program; "": unknown
	Body    []byte        // opaque
}

func (n *GraphNode) fields(c *Codec) {
	Text(c, &n.Name, MaxGraphName)
	List(c, &n.Parents, MaxInputs, 1, func(p *int32, c *Codec) { Index(c, p) })
	Amount(c, &n.Bytes)
	Amount(c, &n.Output)
	Amount(c, &n.Length)
	Text(c, &n.Kind, MaxKind)
	c.Rest(&n.Body)
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
