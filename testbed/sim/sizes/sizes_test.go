package sizes

import "testing"

// TestSizes holds what docs/scale.md says: a join sends the names of all members, the loss of a replica a few
// bytes; a node is in contact with few others.
func TestSizes(t *testing.T) {
	small, large := Of(100), Of(800)
	t.Logf("figure: %+v %+v", small, large)
	if large.Join < 7*small.Join || large.Exclude > small.Exclude+8 || large.Exclude > 100 {
		t.Errorf("with 8 times the nodes a join takes %d bytes in place of %d, a loss %d in place of %d", large.Join, small.Join, large.Exclude, small.Exclude)
	}
	if large.Neighbors <= small.Neighbors-1 || large.Neighbors > 40 {
		t.Errorf("a node is in contact with %d of 800 nodes, %d of 100", large.Neighbors, small.Neighbors)
	}
	for _, s := range []Sizes{small, large} {
		if s.List < float64(s.Entry) || s.List > 2000 || s.Choices < 50 || s.Choices > 1000 {
			t.Errorf("a member takes %.0f and %.0f bytes in the lists of %d nodes", s.List, s.Choices, s.Nodes)
		}
	}
}
