package slots

import "github.com/filch-hpc/filch"

// devices is an amount of each GPU of this node, in thousandths, by the GPU's number.
type devices []int16

func wholeDevices(n int) devices {
	d := make(devices, n)
	for i := range d {
		d[i] = filch.GPU
	}
	return d
}

// unitOf is the part of a device that goes to a rank in one piece, for ranks that take
// gpus each: a whole device, or the share of a rank that takes less than a device.
func unitOf(gpus int32) int16 {
	if gpus > 0 && gpus < filch.GPU {
		return int16(gpus)
	}
	return filch.GPU
}

func (d devices) sum() (n int32) {
	for _, v := range d {
		n += int32(v)
	}
	return n
}

// fits is the number of ranks that can take each, after base was taken once. Shares of
// different devices do not make a whole device.
func (d devices) fits(base, each int32) int32 {
	if base == 0 && each == 0 {
		return filch.Unbounded
	}
	unit, free := unitOf(each), int32(0)
	for _, v := range d {
		whole := v == filch.GPU
		if whole && base > 0 {
			base -= filch.GPU
			continue
		}
		free += int32(v / unit)
	}
	switch {
	case base > 0:
		return 0
	case each == 0:
		return filch.Unbounded
	}
	return free / max(each/int32(unit), 1)
}

// lend moves n thousandths to t, in units: each to the device with the least room that
// suffices, of several to the lowest. t grows as needed.
func (d devices) lend(t devices, n int32, unit int16) devices {
	for len(t) < len(d) {
		t = append(t, 0)
	}
	for ; n > 0; n -= int32(unit) {
		best := -1
		for i, v := range d {
			if v >= unit && (best < 0 || v < d[best]) {
				best = i
			}
		}
		if best < 0 {
			panic("slots: lent more of the GPUs than is free")
		}
		d[best] -= unit
		t[best] += unit
	}
	return t
}

// giveBack moves n thousandths to t, units of the highest devices first, or all of d.
func (d devices) giveBack(t devices, n int32, unit int16) {
	all := n == d.sum()
	for i := len(d) - 1; i >= 0 && n > 0; i-- {
		v := d[i]
		if !all {
			v = min(v/unit*unit, int16(min(n, filch.GPU)))
		}
		d[i] -= v
		t[i] += v
		n -= int32(v)
	}
}

// plus adds t, which is no longer than d.
func (d devices) plus(t devices) {
	for i := range min(len(d), len(t)) {
		d[i] += t[i]
	}
}

// minus takes t out of d, as far as d has it.
func (d devices) minus(t devices) {
	for i := range min(len(d), len(t)) {
		d[i] = max(d[i]-t[i], 0)
	}
}

// exceeds reports whether more of a device is in d and t than the device has.
func (d devices) exceeds(t devices) bool {
	for i := range min(len(d), len(t)) {
		if d[i]+t[i] > filch.GPU {
			return true
		}
	}
	return false
}

// inside reports whether t has all of d.
func (d devices) inside(t devices) bool {
	for i, v := range d {
		if v > 0 && (i >= len(t) || t[i] < v) {
			return false
		}
	}
	return true
}

func (d devices) clone() devices { return append(devices(nil), d...) }
