package record

import (
	"slices"
	"testing"
)

// TestParentsInAnotherJob: of the parents that go to the other job, those that write no input stay
// the last ones, and are counted.
func TestParentsInAnotherJob(t *testing.T) {
	n := GraphNode{Parents: []int32{7, 3, 5, 1}, After: 2}
	for _, c := range []struct {
		index   map[int32]int32
		parents []int32
		after   int
	}{
		{map[int32]int32{7: 0, 3: 1, 5: 2, 1: 3}, []int32{0, 1, 2, 3}, 2},
		{map[int32]int32{7: 0, 5: 2}, []int32{0, 2}, 1},
		{map[int32]int32{3: 4}, []int32{4}, 0},
		{nil, nil, 0},
	} {
		if parents, after := n.ParentsIn(c.index); !slices.Equal(parents, c.parents) || after != c.after {
			t.Errorf("with the tasks %v: parents %v, %d without files; want %v, %d", c.index, parents, after, c.parents, c.after)
		}
	}
}
