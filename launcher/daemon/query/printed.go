package query

import (
	"encoding/json"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
)

// printedPlace is how far a client has read the output of a job's tasks on this node: the
// segments, and the tasks whose output the client saw before their end. When a task has
// ended, the whole of its output comes to the segments; there the seen bytes are left out.
type printedPlace struct {
	Files output.Cursor `json:"f,omitempty"`
	Seen  []seenStream  `json:"s,omitempty"`
}

// seenStream is a stream of an attempt that the client has seen in part.
type seenStream struct {
	Index  int32 `json:"i"`
	Nth    int32 `json:"n"`
	Stream uint8 `json:"s"`
	At     int64 `json:"a"` // the client has the stream up to here
	// The place in the segments: pieces of one stream may come in several answers.
	Kept int64 `json:"k,omitempty"`
	Gap  int64 `json:"g,omitempty"` // dropped bytes from half of output.KeptMax on
	Half int64 `json:"h,omitempty"` // where Gap begins
}

// printed reads the output of tasks: of ended tasks from the segments, and of running
// tasks from the runners.
func (out outputs) printed(o *outputQuery) (a answer, err error) {
	var from printedPlace
	if o.from != "" && json.Unmarshal([]byte(o.from), &from) != nil {
		return a, filch.Errorf(filch.Invalid, "%q is not a place in the output", clipText(o.from))
	}
	// The runners first: a task that is missing there has its output in the segments.
	live, whole := out.daemon.Runners.Look(o.look(from.Seen))
	r := printedReader{o: o, seen: map[launcher.StreamMark]*seenStream{}, left: o.limit}
	for i := range from.Seen {
		s := &from.Seen[i]
		r.seen[launcher.StreamMark{Index: launcher.TaskIndex(s.Index), Nth: s.Nth, Stream: s.Stream}] = s
	}
	a.End, a.Short = true, !whole
	running := map[launcher.StreamMark]bool{}
	for _, s := range live {
		r.add(s, running)
		a.End = a.End && !s.More
	}
	dir := proc.Place{Dir: out.daemon.Dir.Path()}.OutputDir(o.job)
	next, bad, err := output.ReadSegmentsFrom(dir, from.Files, r.want, r.take)
	if err != nil {
		return a, filch.Errorf(filch.Internal, "cannot read the output of job %d on %s: %s", o.job, out.self, err.Error())
	}
	a.Pieces, a.Bad, a.End = r.pieces, bad, a.End && r.left > 0
	if o.from == "" {
		a.Gone = output.GoneSegments(dir)
		if a.Cut = out.daemon.Cuts.Of(o.job, launcher.TaskIndex(o.first), launcher.TaskIndex(o.last)); a.Cut > 0 {
			a.Why = out.daemon.Cuts.Why(o.job)
		}
	}
	place := printedPlace{Files: next}
	for m, s := range r.seen {
		// An ended task is in the segments, perhaps beyond the end of this answer.
		if running[m] || r.left <= 0 || !whole {
			place.Seen = append(place.Seen, *s)
		}
	}
	text, err := json.Marshal(place)
	a.Next = string(text)
	return a, err
}

// look is the question to the runners.
func (o *outputQuery) look(seen []seenStream) launcher.TaskLook {
	q := launcher.TaskLook{Span: o.span(), Limit: int32(o.limit), Lines: o.lines, Ended: o.ended, Watch: o.wait > 0}
	for _, s := range seen {
		q.Marks = append(q.Marks, launcher.StreamMark{Index: launcher.TaskIndex(s.Index), Nth: s.Nth, Stream: s.Stream, At: s.At})
	}
	return q
}

// printedReader collects pieces of segments.
type printedReader struct {
	o      *outputQuery
	seen   map[launcher.StreamMark]*seenStream
	pieces []wire.OutputPiece
	left   int
}

// add takes the answer of a runner. The pieces of running tasks come first: a task may
// end before the segments are read, which then have the rest.
func (r *printedReader) add(seen launcher.TaskSeen, running map[launcher.StreamMark]bool) {
	for _, m := range seen.Running {
		at := m.At
		m.At = 0
		running[m] = true
		if r.seen[m] == nil {
			r.seen[m] = &seenStream{Index: int32(m.Index), Nth: m.Nth, Stream: m.Stream}
		}
		r.seen[m].At = at
	}
	now := time.Now().UnixMilli()
	for _, p := range seen.Pieces {
		r.pieces = append(r.pieces, wire.OutputPiece{
			Index: int32(p.Mark.Index), Attempt: p.Mark.Nth, Rank: p.Rank, Stream: p.Mark.Stream, Running: true, Time: now, Lost: p.Lost, Data: p.Data,
		})
	}
}

func (r *printedReader) want(p output.Printed) bool {
	return p.Index >= r.o.first && p.Index <= r.o.last && (p.Failed || !r.o.failed)
}

func (r *printedReader) take(p output.Printed) bool {
	piece := wire.OutputPiece{
		Index: p.Index, Attempt: p.Attempt, Rank: p.Rank, Stream: p.Stream, Failed: p.Failed, Time: p.Time, Lost: p.Lost, Data: p.Data,
	}
	if s := r.seen[launcher.StreamMark{Index: launcher.TaskIndex(p.Index), Nth: p.Attempt, Stream: p.Stream}]; s != nil {
		piece.Data, piece.Lost = s.unseen(p)
	}
	if len(piece.Data) > 0 || piece.Lost > 0 {
		piece.Data = append([]byte(nil), piece.Data...)
		r.pieces = append(r.pieces, piece)
		r.left -= len(piece.Data)
	}
	return r.left > 0
}

// unseen returns the part of a kept piece that the client has not seen, and the number of
// dropped bytes that the client does not know of.
func (s *seenStream) unseen(p output.Printed) (data []byte, lost int64) {
	if p.Lost > 0 {
		s.Gap, s.Half = p.Lost, output.HalfKept(len(p.Data))
	}
	begin, data := s.Kept, p.Data
	s.Kept += int64(len(data))
	// A piece on both sides of the gap: the first part is before, the rest behind.
	before := data
	if s.Gap > 0 {
		before = data[:min(max(s.Half-begin, 0), int64(len(data)))]
	}
	behind := data[len(before):]
	var unseen []byte
	if skip := s.At - begin; skip < int64(len(before)) {
		unseen = append(unseen, before[max(skip, 0):]...)
	}
	if len(behind) > 0 {
		place := max(begin, s.Half) + s.Gap // of the first byte behind the gap
		if begin <= s.Half && s.At < place {
			lost = place - max(s.At, s.Half)
		}
		if skip := s.At - place; skip < int64(len(behind)) {
			unseen = append(unseen, behind[max(skip, 0):]...)
		}
	}
	return unseen, lost
}
