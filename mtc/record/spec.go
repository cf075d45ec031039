package record

import "github.com/filch-hpc/filch"

import "time"

// Spec is the common properties of a job's tasks.
type Spec struct {
	Body       []byte     // the program to run, opaque here: the launcher's own template
	Each       filch.Room // the room of each task
	Cap        int32      // bound of the running tasks in the whole instance; 0 no limit
	Retries    int32      // after an end that is not ok
	CrashLimit uint8      // committed starts that may die with their node; 0 is [CrashLimit]
	Sure       bool       // the first start of each task is committed too
	Once       bool       // started at most once
	OnFail     FailMode
	Payloads   bool // each task has a line of its own
	Limits     bool // a line may have a limit of its own, in place of Limit
	First      int32
	Step       int32         // the number of task i is First+i*Step; 0 is 1
	Picks      []Pick        // or the i-th of these, when failures are submitted again
	Limit      time.Duration // of an attempt; the spawner enforces the limit
	Like       string        // kind of the tasks: a name, or a command line; "" none
	// Expect is the duration of earlier tasks of the same kind, used while no task of
	// this job has ended; 0 not known.
	Expect time.Duration
}

// Pick is a run of numbers.
type Pick struct{ From, Count int32 }

// CrashLimit is the default of [Spec.CrashLimit].
const CrashLimit = 5

// FailMode is the effect of a failed task on the rest of a graph.
type FailMode uint8

// The modes.
const (
	FailSkip FailMode = iota // dependents of the failed task are skipped, the rest goes on
	FailStop                 // no more tasks start
	FailOn                   // dependents of the failed task start all the same
)

// Number is the submitter's number of task i.
func (s *Spec) Number(i int32) int32 {
	for _, p := range s.Picks {
		if i < p.Count {
			return p.From + i
		}
		i -= p.Count
	}
	if s.Step == 0 {
		return s.First + i
	}
	return s.First + i*s.Step
}

func (s *Spec) Crashes() uint8 {
	if s.CrashLimit == 0 {
		return CrashLimit
	}
	return s.CrashLimit
}

// CommitsStarts reports whether every start is committed before the task begins.
func (s *Spec) CommitsStarts() bool { return s.Once || s.Sure }

// MaxLike bounds [Spec.Like], in bytes.
const MaxLike = 256

// MaxPicks bounds the runs of numbers of a spec.
const MaxPicks = 1 << 14

// Encode is the spec's bytes.
func (s *Spec) Encode() []byte {
	var w Writer
	w.Bytes(s.Body)
	w.room(s.Each)
	w.Uint(uint64(s.Cap))
	w.Uint(uint64(s.Retries))
	w.U8(s.CrashLimit)
	w.Bool(s.Once)
	w.U8(uint8(s.OnFail))
	w.Bool(s.Payloads)
	w.Int(int64(s.First))
	w.Int(int64(s.Step))
	w.Int(int64(s.Limit))
	w.Uint(uint64(len(s.Picks)))
	for _, p := range s.Picks {
		w.Int(int64(p.From))
		w.Uint(uint64(p.Count))
	}
	w.String(s.Like)
	w.Int(int64(s.Expect))
	w.Bool(s.Limits)
	w.Bool(s.Sure)
	return w.B
}

// DecodeSpec reads a spec.
func DecodeSpec(v []byte) (*Spec, error) {
	r := NewReader(v)
	s := &Spec{Body: r.Bytes(MaxBlob), Each: r.room(), Cap: r.Index(), Retries: r.Index()}
	s.CrashLimit, s.Once = r.U8(), r.Bool()
	s.OnFail = FailMode(r.UpTo(uint64(FailOn)))
	s.Payloads = r.Bool()
	s.First, s.Step, s.Limit = r.I32(), r.I32(), time.Duration(r.Int())
	s.Picks = make([]Pick, r.Count(MaxPicks, 2))
	for i := range s.Picks {
		s.Picks[i] = Pick{r.I32(), r.Index()}
	}
	s.Like, s.Expect = string(r.View(MaxLike)), time.Duration(r.Int())
	// Specs written before tasks had limits of their own lack Limits, and specs written
	// before a limit of crashes could be 0 lack Sure.
	s.Limits = len(r.B) > 0 && r.Bool()
	s.Sure = len(r.B) > 0 && r.Bool()
	return s, r.Done()
}

func (w *Writer) room(m filch.Room) {
	w.Uint(uint64(m.Slots))
	w.Uint(uint64(m.MemBytes))
	w.Uint(uint64(m.GPUs))
}

func (r *Reader) room() filch.Room {
	return filch.Room{Slots: r.Index(), MemBytes: int64(r.UpTo(1<<62 - 1)), GPUs: r.Index()}
}
