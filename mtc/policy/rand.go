package policy

// Rand is splitmix64: small, seeded, the same everywhere.
type Rand uint64

func (r *Rand) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *Rand) Below(n int) int { return int(r.Next() % uint64(n)) }
