package filch

import "math"

// Room is an amount of a node's resources. A request is granted only within all
// three; grants count in whole ranks or tasks.
type Room struct {
	Slots    int32
	MemBytes int64
	GPUs     int32
}

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
	return int32(n)
}

// Times is n times r.
func (r Room) Times(n int32) Room {
	return Room{Slots: r.Slots * n, MemBytes: r.MemBytes * int64(n), GPUs: r.GPUs * n}
}

// Plus is r and s together.
func (r Room) Plus(s Room) Room {
	return Room{Slots: r.Slots + s.Slots, MemBytes: r.MemBytes + s.MemBytes, GPUs: r.GPUs + s.GPUs}
}

// Minus is r without s.
func (r Room) Minus(s Room) Room {
	return Room{Slots: r.Slots - s.Slots, MemBytes: r.MemBytes - s.MemBytes, GPUs: r.GPUs - s.GPUs}
}

// Holds reports whether s fits in r; a resource that s does not need may be overdrawn.
func (r Room) Holds(s Room) bool {
	return s.Slots <= r.Slots && (s.MemBytes == 0 || s.MemBytes <= r.MemBytes) && (s.GPUs == 0 || s.GPUs <= r.GPUs)
}
