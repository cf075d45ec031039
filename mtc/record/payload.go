package record

import "slices"

// Payload is the record of the payloads of 8 tasks: lines of a list, or nodes of a graph.
type Payload struct {
	Offs  []uint8
	Lines [][]byte
}

// Line is the payload of the task at an offset.
func (p *Payload) Line(off uint8) ([]byte, bool) {
	i, ok := slices.BinarySearch(p.Offs, off)
	if !ok {
		return nil, false
	}
	return p.Lines[i], true
}

// Encode is the record's bytes.
func (p *Payload) Encode() []byte {
	var w Writer
	w.Uint(uint64(len(p.Offs)))
	for i, off := range p.Offs {
		w.U8(off)
		w.Bytes(p.Lines[i])
	}
	return w.B
}

// DecodePayload reads a record of payloads.
func DecodePayload(v []byte) (*Payload, error) {
	p := &Payload{}
	if len(v) == 0 {
		return p, nil
	}
	r := NewReader(v)
	n := r.Count(PayloadSize, 2)
	for i := range n {
		off := r.U8()
		if off >= PayloadSize || i > 0 && off <= p.Offs[i-1] {
			r.Fail()
		}
		p.Offs = append(p.Offs, off)
		p.Lines = append(p.Lines, r.Bytes(MaxPayload))
	}
	return p, r.Done()
}

// mergePayload keeps the first line of each task. An empty line gives the task up, unless
// the record has the task's line; the reply to an empty line is the whole record. A line
// that arrives after its task was given up gets [VerdictEnded].
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
		reply = append([]byte{byte(VerdictDone)}, val...)
	case late:
		reply = []byte{byte(VerdictEnded)}
	}
	return val, reply, nil
}
