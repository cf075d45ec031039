package varint

// Flags packs up to eight flags into a byte, the first in the lowest bit.
func Flags(all ...bool) byte {
	var f byte
	for i, x := range all {
		if x {
			f |= 1 << i
		}
	}
	return f
}
