package stealer

// Half is the room lent by a victim out of free: half, rounded up, so the last slot
// can be stolen too. The papers say half (MATRIX 3.8: "it locks half of its compute
// slots"), MATRIX's code rounds down, and then a victim with one slot free never
// lends the slot.
func Half(free int32) int32 {
	if free <= 0 {
		return 0
	}
	if mutantLendAll {
		return free
	}
	return free/2 + free%2
}

// rng is splitmix64: small, seeded, and the same everywhere.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below draws from 0..n-1. The bias of the modulus is below n/2^64.
func (r *rng) below(n int) int { return int(r.next() % uint64(n)) }

// root is the largest k with k*k <= n.
func root(n int) int {
	k := 0
	for (k+1)*(k+1) <= n {
		k++
	}
	return k
}
