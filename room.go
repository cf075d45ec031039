package filch

import "math"

// Room is an amount of a node's resources. A request is granted only within all of
// them; grants count in whole ranks or tasks.
//
// With 32 bytes and four fields, the compiler keeps the value in registers; larger, it costs
// each task without a process a tenth more of a core's time.
type Room struct {
	Slots    int32
	GPUs     int32 // thousandths
	MemBytes int64
	Named    Amounts
}

// GPU is a whole GPU, in thousandths.
const GPU = 1000

// Unbounded is the number of fitting ranks if a rank takes nothing.
const Unbounded = math.MaxInt32

// Fits is the number of whole ranks fitting in r: base is taken once, each for
// every rank.
func (r Room) Fits(base, each Room) int32 {
	n := int64(Unbounded)
	dim := func(have, once, per int64) {
		switch have -= once; {
		case have < 0:
			n = 0
		case per > 0:
			n = min(n, have/per)
		}
	}
	dim(int64(r.Slots), int64(base.Slots), int64(each.Slots))
	dim(r.MemBytes, base.MemBytes, each.MemBytes)
	dim(int64(r.GPUs), int64(base.GPUs), int64(each.GPUs))
	if base.Named != "" || each.Named != "" {
		for _, a := range base.Named.plus(each.Named, 1).list() {
			dim(r.Named.Of(a.name), base.Named.Of(a.name), each.Named.Of(a.name))
		}
	}
	return int32(n)
}

// Times is n times r.
func (r Room) Times(n int32) Room {
	return Room{Slots: r.Slots * n, MemBytes: r.MemBytes * int64(n), GPUs: r.GPUs * n, Named: Amounts("").plus(r.Named, int64(n))}
}

// Plus is r and s together.
func (r Room) Plus(s Room) Room {
	r.Add(&s)
	return r
}

// Minus is r without s.
func (r Room) Minus(s Room) Room {
	r.Sub(&s)
	return r
}

// Add adds s to r, in place: the start and the end of a task change several amounts, and few
// amounts have names.
func (r *Room) Add(s *Room) {
	r.Slots += s.Slots
	r.MemBytes += s.MemBytes
	r.GPUs += s.GPUs
	if s.Named != "" {
		r.Named = r.Named.plus(s.Named, 1)
	}
}

// Sub takes s away from r.
func (r *Room) Sub(s *Room) {
	r.Slots -= s.Slots
	r.MemBytes -= s.MemBytes
	r.GPUs -= s.GPUs
	if s.Named != "" {
		r.Named = r.Named.plus(s.Named, -1)
	}
}

// Left is r without used: 0 of what is overdrawn.
func (r *Room) Left(used *Room) Room {
	left := Room{
		Slots: max(r.Slots-used.Slots, 0), GPUs: max(r.GPUs-used.GPUs, 0), MemBytes: max(r.MemBytes-used.MemBytes, 0), Named: r.Named,
	}
	if used.Named != "" {
		left.Named = r.Named.plus(used.Named, -1)
	}
	if left.Named != "" {
		left.Named = left.Named.positive()
	}
	return left
}

// Holds reports whether s fits in r; a resource that s does not need may be overdrawn.
func (r Room) Holds(s Room) bool {
	return s.Slots <= r.Slots && (s.MemBytes == 0 || s.MemBytes <= r.MemBytes) && (s.GPUs == 0 || s.GPUs <= r.GPUs) && (s.Named == "" || r.Named.holds(s.Named))
}

// HoldsBeside reports whether r without used holds s. The question comes before
// every start of a task.
func (r *Room) HoldsBeside(used, s *Room) bool {
	return s.Slots <= r.Slots-used.Slots &&
		(s.MemBytes == 0 || s.MemBytes <= r.MemBytes-used.MemBytes) &&
		(s.GPUs == 0 || s.GPUs <= r.GPUs-used.GPUs) &&
		(s.Named == "" || r.Named.plus(used.Named, -1).holds(s.Named))
}
