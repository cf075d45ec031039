package filch

import "time"

// Mix is the finalizer of splitmix64: every bit of the result depends on every bit of
// x, and no two x have the same result.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Rand is a seeded generator, splitmix64: the same seed makes the same numbers in every
// process. The value is the seed.
type Rand uint64

// Uint64 returns the next number.
func (r *Rand) Uint64() uint64 {
	*r += 0x9e3779b97f4a7c15
	return Mix(uint64(*r))
}

// IntN returns a number below n.
func (r *Rand) IntN(n int) int { return int(r.Uint64() % uint64(n)) }

// UpTo draws a wait between half of wait and all of wait, so that nodes that wait for the
// same event do not come back together.
func (r *Rand) UpTo(wait time.Duration) time.Duration {
	return wait/2 + time.Duration(r.Uint64()%uint64(wait/2+1))
}

// Hash is the place of a node on a ring: FNV-1a of the name, mixed, so nodes of one
// rack are not neighbors there. The place is the same in every process.
func (n NodeName) Hash() uint64 {
	h := uint64(14695981039346656037)
	for i := range len(n) {
		h = (h ^ uint64(n[i])) * 1099511628211
	}
	return Mix(h)
}
