package record

import "slices"

// Cap is the record of a capped job's tokens: a task of the job runs only under a token
// of its node, and the nodes together hold at most Limit tokens. A resource that the nodes
// share (a license) has such a record, too: a task runs only under as many tokens as it takes.
type Cap struct {
	Limit   int32
	Holders []Holder
}

// Holder is a node with tokens.
type Holder struct {
	Owner
	Seq  uint32 // of the node's last request
	Held int32
	Want int32 // number of tokens in the last request
}

// Free is the number of tokens that no node holds.
func (c *Cap) Free() int32 {
	free := c.Limit
	for _, h := range c.Holders {
		free -= h.Held
	}
	return free
}

// Holder is the entry of an owner; nil without one.
func (c *Cap) Holder(o Owner) *Holder {
	if i := slices.IndexFunc(c.Holders, func(h Holder) bool { return h.Owner == o }); i >= 0 {
		return &c.Holders[i]
	}
	return nil
}

func (h *Holder) fields(c *Codec) {
	c.Owner(&h.Owner)
	U32(c, &h.Seq)
	Index(c, &h.Held)
	Index(c, &h.Want)
}

func (p *Cap) fields(c *Codec) {
	Index(c, &p.Limit)
	List(c, &p.Holders, maxHolders, 5, (*Holder).fields)
}

// Encode is the record's bytes.
func (p *Cap) Encode() []byte {
	c := Writing(32)
	p.fields(&c)
	return c.B
}

// DecodeCap reads the record of a job's tokens.
func DecodeCap(v []byte) (*Cap, error) {
	c, p := Reading(v), &Cap{}
	p.fields(&c)
	return p, c.Done()
}

// CapOp sets how many tokens a node wants to hold in all; a number below the present
// number gives tokens back.
type CapOp struct {
	Limit int32
	Owner Owner
	Seq   uint32
	Want  int32
	Deed  CapDeed
	// Tokens beyond the present number come in whole steps, down from Want; 0 is 1. A
	// task that takes several tokens at a time has no use for a part of them.
	Step int32
}

// CapDeed is the effect of a [CapOp].
type CapDeed uint8

// The deeds.
const (
	CapHold  CapDeed = iota // the owner holds Want tokens
	CapLose                 // the owner is dead, and its tokens are free
	CapLimit                // nothing but the limit changes
)

func (p *CapOp) fields(c *Codec) {
	Index(c, &p.Limit)
	c.Owner(&p.Owner)
	U32(c, &p.Seq)
	Index(c, &p.Want)
	U8(c, &p.Deed)
	c.Require(p.Deed <= CapLimit)
	if c.Encodes && p.Step > 1 || !c.Encodes && c.Left() > 0 {
		Index(c, &p.Step)
	}
}

func (p CapOp) Encode() []byte {
	c := Writing(32)
	p.fields(&c)
	return c.B
}

// mergeCap answers with the whole record.
func mergeCap(old, delta []byte) (val, reply []byte, err error) {
	var p CapOp
	r := Reading(delta)
	p.fields(&r)
	if err := r.Done(); err != nil {
		return nil, nil, err
	}
	c := &Cap{Limit: p.Limit}
	if len(old) > 0 {
		if c, err = DecodeCap(old); err != nil {
			return nil, nil, err
		}
	}
	c.apply(p)
	val = c.Encode()
	return val, val, nil
}

// lostStep is how far the entry of a dead node moves ahead of the node's last request, so
// that the record ignores a request that the node sent before its death. A node that was
// called dead but lives reads its entry, and numbers its next request after the entry's.
const lostStep = 1 << 30

func (c *Cap) apply(p CapOp) {
	if p.Deed == CapLimit {
		c.Limit = p.Limit
		return
	}
	h := c.Holder(p.Owner)
	if p.Deed == CapLose {
		if h == nil {
			return
		}
		h.Held, h.Want, h.Seq = 0, 0, h.Seq+min(lostStep, 1<<32-1-h.Seq)
		return
	}
	if h == nil {
		if len(c.Holders) >= maxHolders {
			return
		}
		c.Holders = append(c.Holders, Holder{Owner: p.Owner})
		h = &c.Holders[len(c.Holders)-1]
	}
	if p.Seq <= h.Seq {
		return
	}
	free := c.Free()
	h.Seq, h.Want = p.Seq, p.Want
	most, step := h.Held+max(free, 0), max(p.Step, 1)
	if over := p.Want - most; over > 0 {
		most = p.Want - (over+step-1)/step*step
	}
	h.Held = max(min(p.Want, most), min(p.Want, h.Held))
	if mutantCapFree {
		h.Held = p.Want
	}
}
