package pmi

import "time"

// Strand carries messages between the keepers of two jobs: in order, each exactly once and
// up to a length of maxParcel, over relays that may lose, repeat and reorder frames. Both
// keepers have a Strand for the other.
type Strand struct {
	link  link
	begun []byte // an incomplete message
}

// NewStrand makes a strand.
func NewStrand() *Strand { return &Strand{link: newLink(0)} }

// Send puts a message on its way; Flush makes the frames. The result is false once the
// other keeper is gone.
func (s *Strand) Send(body []byte) bool {
	if s.link.gone {
		return false
	}
	for rest, last := body, false; !last; {
		piece := rest[:min(len(rest), maxChunk)]
		rest = rest[len(piece):]
		last = len(rest) == 0
		s.link.say(message{kind: kindParcel, data: piece, last: last})
	}
	return true
}

// Receive takes a frame of the other keeper; an empty frame means that the other keeper is
// gone. Receive returns the message that the frame completes, if any; ok is false for an
// invalid frame.
func (s *Strand) Receive(now time.Duration, frame []byte) (body []byte, whole, ok bool) {
	if len(frame) == 0 {
		s.link.leave(now)
		return nil, false, true
	}
	m, ok := s.link.receive(now, frame)
	if !ok || m.kind == kindAck || m.kind == 0 {
		return nil, false, ok
	}
	if m.kind != kindParcel || len(s.begun)+len(m.data) > maxParcel {
		return nil, false, false
	}
	s.begun = append(s.begun, m.data...)
	if !m.last {
		return nil, false, true
	}
	body, s.begun = s.begun, nil
	return body, true, true
}

// Flush returns the frames that may be sent now.
func (s *Strand) Flush(now time.Duration) (frames [][]byte) {
	var out Out
	s.link.flush(now, &out)
	for _, p := range out.Peers {
		frames = append(frames, p.Body)
	}
	return frames
}

// Gone reports whether the other keeper is gone.
func (s *Strand) Gone() bool { return s.link.gone }

// Deadline is the time of the next Flush.
func (s *Strand) Deadline() time.Duration { return s.link.deadline() }
