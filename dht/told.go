package dht

// Bounds of what the home of a shard remembers of operations that changed
// nothing.
const (
	toldMax   = 512
	toldBytes = 256 << 10
)

// told are the answers of this epoch to operations that changed nothing, by
// identity. The record does not remember these. Without them a first try that
// comes late, when the same was asked through another node and answered, would
// be carried out after all. In the next epoch nobody takes that first try.
type told struct {
	answers map[OpID]given
	order   []OpID
	bytes   int
}

// find is the answer to an operation that was answered before.
func (t *told) find(id OpID) (given, bool) {
	g, ok := t.answers[id]
	return g, ok
}

// add remembers an answer, unless only the node that chose the identity can
// repeat the operation: it numbers what it sends.
func (t *told) add(o *Op, res Result, after uint64) {
	if o.reads() || o.ID.Seq == 0 || o.ID.Seq&ownSeq != 0 {
		return
	}
	if _, ok := t.answers[o.ID]; ok {
		return
	}
	if t.answers == nil {
		t.answers = map[OpID]given{}
	}
	t.answers[o.ID] = given{result: res, after: after, done: true}
	t.order = append(t.order, o.ID)
	t.bytes += len(res.Value)
	for len(t.order) > toldMax || t.bytes > toldBytes && len(t.order) > 1 {
		t.bytes -= len(t.answers[t.order[0]].result.Value)
		delete(t.answers, t.order[0])
		t.order = t.order[1:]
	}
}
