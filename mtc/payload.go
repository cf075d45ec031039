package mtc

import "slices"

// Payload is the record of what belongs to each of 8 tasks: a line of a list,
// or a graph's node.
type Payload struct {
	Offs  []uint8
	Lines [][]byte
}

// Line is what belongs to the task at that offset.
func (p *Payload) Line(off uint8) ([]byte, bool) {
	i, ok := slices.BinarySearch(p.Offs, off)
	if !ok {
		return nil, false
	}
	return p.Lines[i], true
}

// Encode is the record's bytes.
func (p *Payload) Encode() []byte {
	var w writer
	w.uint(uint64(len(p.Offs)))
	for i, off := range p.Offs {
		w.u8(off)
		w.bytes(p.Lines[i])
	}
	return w.b
}

// DecodePayload reads a record of payloads.
func DecodePayload(v []byte) (*Payload, error) {
	p := &Payload{}
	if len(v) == 0 {
		return p, nil
	}
	r := reader{b: v}
	n := r.count(PayloadSize, 2)
	for i := range n {
		off := r.u8()
		if off >= PayloadSize || i > 0 && off <= p.Offs[i-1] {
			r.fail()
		}
		p.Offs = append(p.Offs, off)
		p.Lines = append(p.Lines, r.bytes(MaxPayload))
	}
	return p, r.done()
}

// mergePayload keeps the first line of each task. An empty one gives the task
// up, unless its line is there; who gives up hears what there is, and whose line
// comes after that hears [vEnded].
func mergePayload(old, delta []byte) (val, reply []byte, err error) {
	p, err := DecodePayload(old)
	if err != nil {
		return nil, nil, err
	}
	d, err := DecodePayload(delta)
	if err != nil {
		return nil, nil, err
	}
	late, gives := false, false
	for k, off := range d.Offs {
		i, ok := slices.BinarySearch(p.Offs, off)
		gives = gives || len(d.Lines[k]) == 0
		late = late || ok && len(p.Lines[i]) == 0
		if !ok {
			p.Offs = slices.Insert(p.Offs, i, off)
			p.Lines = slices.Insert(p.Lines, i, d.Lines[k])
		}
	}
	val = p.Encode()
	switch {
	case gives:
		reply = append([]byte{byte(vDone)}, val...)
	case late:
		reply = []byte{byte(vEnded)}
	}
	return val, reply, nil
}
