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
