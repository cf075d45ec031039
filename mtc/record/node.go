package record

// GraphNode is a task of a workflow.
type GraphNode struct {
	Name    string // for messages about cycles
	Parents []int32
	Bytes   int64  // of input that no parent makes
	Body    []byte // opaque
}

// Encode is a node's payload.
func (n *GraphNode) Encode() []byte {
	var w Writer
	w.String(n.Name)
	w.Uint(uint64(len(n.Parents)))
	for _, p := range n.Parents {
		w.Uint(uint64(p))
	}
	w.Uint(uint64(n.Bytes))
	w.B = append(w.B, n.Body...)
	return w.B
}

// DecodeGraphNode reads a node's payload; the body is the rest.
func DecodeGraphNode(v []byte) (n GraphNode, err error) {
	r := NewReader(v)
	n.Name = string(r.View(MaxGraphName))
	n.Parents = make([]int32, r.Count(MaxInputs, 1))
	for i := range n.Parents {
		n.Parents[i] = r.Index()
	}
	n.Bytes = int64(r.UpTo(1<<62 - 1))
	if r.Bad {
		return n, ErrMalformed
	}
	n.Body = r.B
	return n, nil
}

// MaxGraphName bounds a task's name in bytes.
const MaxGraphName = 1 << 10

// MaxInputs bounds the parents of a workflow's task.
const MaxInputs = 4096
