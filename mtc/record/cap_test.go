package record

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/filch-hpc/filch"
)

// TestCapGrantsFreeTokens applies requests of several nodes in any order, also repeated
// and out of date. No request takes a token that another node holds, and the tokens come
// in whole steps.
func TestCapGrantsFreeTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Cap{Limit: rapid.Int32Range(0, 20).Draw(t, "limit")}
		var sent []CapOp
		for seq := range uint32(rapid.IntRange(1, 60).Draw(t, "requests")) {
			op := CapOp{
				Owner: Owner{Node: filch.NodeName(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node")), Incarnation: 1},
				Seq:   seq + 1,
				Want:  rapid.Int32Range(0, 12).Draw(t, "want"),
				Step:  rapid.Int32Range(0, 4).Draw(t, "step"),
			}
			if len(sent) > 0 && rapid.IntRange(0, 4).Draw(t, "again") == 0 {
				op = rapid.SampledFrom(sent).Draw(t, "old")
			}
			sent = append(sent, op)
			before, free := c.heldBy(op.Owner), c.Free()
			c.apply(op)
			after := c.heldBy(op.Owner)
			if gained := after - before; gained > max(free, 0) || c.Free() < min(free, 0) {
				t.Fatalf("%+v took %d tokens of %d free ones: %+v", op, gained, free, c)
			}
			if after > before && (op.Want-after)%max(op.Step, 1) != 0 {
				t.Fatalf("%+v got %d tokens, in no whole step", op, after)
			}
		}
	})
}

func (c *Cap) heldBy(o Owner) int32 {
	if h := c.Holder(o); h != nil {
		return h.Held
	}
	return 0
}

// A node that was called dead by mistake gets tokens again; what it asked for before is
// ignored.
func TestCapOfANodeCalledDead(t *testing.T) {
	o := Owner{Node: "n1", Incarnation: 1}
	c := &Cap{Limit: 2}
	c.apply(CapOp{Limit: 2, Owner: o, Seq: 5, Want: 2})
	c.apply(CapOp{Limit: 2, Owner: o, Deed: CapLose})
	c.apply(CapOp{Limit: 2, Owner: o, Seq: 6, Want: 2})
	if c.Free() != 2 {
		t.Errorf("%d of 2 tokens are free after a request from before the death", c.Free())
	}
	c.apply(CapOp{Limit: 2, Owner: o, Seq: c.Holder(o).Seq + 1, Want: 2})
	if c.Free() != 0 {
		t.Errorf("%d of 2 tokens are free after the node asked anew", c.Free())
	}
}
