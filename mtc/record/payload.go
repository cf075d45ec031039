package record

import (
	"iter"
	"slices"

	"github.com/filch-hpc/filch"
)

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

func (p *Payload) fields(c *Codec) {
	if n := c.Count(len(p.Offs), PayloadSize, 2); !c.Encodes {
		p.Offs, p.Lines = make([]uint8, n), make([][]byte, n)
	}
	for i := range p.Offs {
		U8(c, &p.Offs[i])
		c.Require(p.Offs[i] < PayloadSize && (i == 0 || p.Offs[i] > p.Offs[i-1]))
		c.copied(&p.Lines[i], MaxPayload)
	}
}

// GraphNodes decodes the tasks of a workflow, without their bodies; part is the number of the
// record.
func (p *Payload) GraphNodes(part int32, nodes []GraphNode) {
	for k, off := range p.Offs {
		if i := int(part)*PayloadSize + int(off); i < len(nodes) {
			nodes[i], _ = DecodeGraphNode(p.Lines[k])
			nodes[i].Body = nil
		}
	}
}

// Encode is the record's bytes.
func (p *Payload) Encode() []byte {
	c := Writing(32)
	p.fields(&c)
	return c.B
}

// DecodePayload reads a record of payloads; no bytes are a record without payloads.
func DecodePayload(v []byte) (*Payload, error) {
	c, p := Reading(v), &Payload{}
	if len(v) > 0 {
		p.fields(&c)
	}
	return p, c.Done()
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

// CheckLines refuses lines that are empty or too long.
func CheckLines(lines [][]byte) error {
	for i, l := range lines {
		if len(l) == 0 {
			return filch.Errorf(filch.Invalid, "line %d is empty: not even a kind", i+1)
		}
		if len(l) > MaxPayload {
			return filch.Errorf(filch.Invalid, "line %d has %d bytes, at most %d", i+1, len(l), MaxPayload).
				WithHint("write long input to a file and name that")
		}
	}
	return nil
}

// Payloads yields the payload records of lines, with their numbers; the first line is of the
// task base.
func Payloads(base int32, lines [][]byte) iter.Seq2[int32, *Payload] {
	return func(yield func(int32, *Payload) bool) {
		for k := 0; k < len(lines); {
			i := base + int32(k)
			p := &Payload{}
			for off := i % PayloadSize; off < PayloadSize && k < len(lines); off++ {
				p.Offs = append(p.Offs, uint8(off))
				p.Lines = append(p.Lines, lines[k])
				k++
			}
			if !yield(i/PayloadSize, p) {
				return
			}
		}
	}
}
