package output

import "bytes"

// LineMax bounds a line: a longer line is cut, and all pieces except the last are
// partial. LineMax is also the most that a [Cutter] holds back.
const LineMax = 64 << 10

// Cutter cuts one stream of one rank into pieces of whole lines. The zero
// value cuts by lines.
type Cutter struct {
	held []byte // the beginning of a line without its end
	Raw  bool   // hand on everything at once (-u, a terminal)
}

// Add takes p and calls emit with pieces that end with a newline; emit must not keep
// the bytes. Bytes after the last newline are held back. A piece that ends within a
// line is marked partial.
func (c *Cutter) Add(p []byte, emit func(piece []byte, partial bool)) {
	if len(p) == 0 {
		return
	}
	if c.Raw {
		emit(p, p[len(p)-1] != '\n')
		return
	}
	if len(c.held) > 0 {
		p = c.join(p, emit)
	}
	if end := bytes.LastIndexByte(p, '\n'); end >= 0 {
		emit(p[:end+1], false)
		p = p[end+1:]
	}
	for len(p) > LineMax {
		emit(p[:LineMax], true)
		p = p[LineMax:]
	}
	if len(p) > 0 {
		c.held = append(c.held, p...)
	}
}

// join completes the held line with the beginning of p and returns the rest of p.
func (c *Cutter) join(p []byte, emit func([]byte, bool)) []byte {
	end := bytes.IndexByte(p, '\n')
	take := end + 1
	if end < 0 {
		take = len(p)
	}
	if room := LineMax - len(c.held); take > room {
		c.held = append(c.held, p[:room]...)
		emit(c.held, true)
		c.held = c.held[:0]
		return p[room:]
	}
	c.held = append(c.held, p[:take]...)
	if end >= 0 {
		emit(c.held, false)
		c.held = c.held[:0]
	}
	return p[take:]
}

// Held counts the bytes of an incomplete line.
func (c *Cutter) Held() int { return len(c.held) }

// Flush emits the incomplete line, if any, and releases the memory.
func (c *Cutter) Flush(emit func(piece []byte, partial bool)) {
	if len(c.held) > 0 {
		emit(c.held, true)
	}
	c.held = nil
}

// Limits of the kept output of a task's stream, in bytes: of a longer stream, the first
// and the last half of the limit are kept.
const (
	KeptMax    = 16 << 20
	KeptScarce = 256 << 10 // where the disk is nearly full
)

// Overlong reports whether cut output of a task was cut at [KeptMax]; else the disk had no
// room. The bytes are those that the node kept.
func Overlong(kept int64) bool { return kept >= KeptMax }

// HalfKept returns the number of bytes before the dropped bytes of a stream, by the
// length of the first piece of the kept stream: with KeptScarce, one piece has all.
func HalfKept(first int) int64 {
	if first == KeptScarce {
		return KeptScarce / 2
	}
	return KeptMax / 2
}
