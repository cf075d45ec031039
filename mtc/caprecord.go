package mtc

import "slices"

// Cap is the record of a capped job's tokens: a task of it runs only under a
// token that its node holds, and no more are held than there are.
type Cap struct {
	Limit   int32
	Holders []Holder
}

// Holder is a node with tokens.
type Holder struct {
	Owner
	Seq  uint32 // of its last word
	Held int32
	Want int32 // what it asked for
}

// Free is what nobody holds.
func (c *Cap) Free() int32 {
	free := c.Limit
	for _, h := range c.Holders {
		free -= h.Held
	}
	return free
}

// Encode is the record's bytes.
func (c *Cap) Encode() []byte {
	var w writer
	w.uint(uint64(c.Limit))
	w.uint(uint64(len(c.Holders)))
	for _, h := range c.Holders {
		w.owner(h.Owner)
		w.uint(uint64(h.Seq))
		w.uint(uint64(h.Held))
		w.uint(uint64(h.Want))
	}
	return w.b
}

// DecodeCap reads the record of a job's tokens.
func DecodeCap(v []byte) (*Cap, error) {
	r := reader{b: v}
	c := &Cap{Limit: r.index()}
	c.Holders = make([]Holder, r.count(maxHolders, 5))
	for i := range c.Holders {
		c.Holders[i] = Holder{r.owner(), r.u32(), r.index(), r.index()}
	}
	return c, r.done()
}

// capOp says how many tokens a node wants to hold in all; fewer than it holds
// gives some back. With lose set the node is dead, and its tokens are free.
type capOp struct {
	limit int32
	who   Owner
	seq   uint32
	want  int32
	lose  bool
}

func (p capOp) encode() []byte {
	var w writer
	w.uint(uint64(p.limit))
	w.owner(p.who)
	w.uint(uint64(p.seq))
	w.uint(uint64(p.want))
	w.bool(p.lose)
	return w.b
}

// mergeCap answers with the whole record.
func mergeCap(old, delta []byte) (val, reply []byte, err error) {
	r := reader{b: delta}
	p := capOp{limit: r.index(), who: r.owner(), seq: r.u32(), want: r.index(), lose: r.bool()}
	if err := r.done(); err != nil {
		return nil, nil, err
	}
	c := &Cap{Limit: p.limit}
	if len(old) > 0 {
		if c, err = DecodeCap(old); err != nil {
			return nil, nil, err
		}
	}
	c.apply(p)
	val = c.Encode()
	return val, val, nil
}

func (c *Cap) apply(p capOp) {
	i := slices.IndexFunc(c.Holders, func(h Holder) bool { return h.Owner == p.who })
	if p.lose {
		// The dead one stays with nothing, so that a late word of it counts for
		// nothing.
		if i < 0 {
			return
		}
		c.Holders[i].Held, c.Holders[i].Want, c.Holders[i].Seq = 0, 0, 1<<32-1
		return
	}
	if i < 0 {
		if len(c.Holders) >= maxHolders {
			return
		}
		i = len(c.Holders)
		c.Holders = append(c.Holders, Holder{Owner: p.who})
	}
	h := &c.Holders[i]
	if p.seq <= h.Seq {
		return
	}
	free := c.Free()
	h.Seq, h.Want = p.seq, p.want
	h.Held = min(p.want, h.Held+max(free, 0))
	if mutantCapFree {
		h.Held = p.want
	}
}
