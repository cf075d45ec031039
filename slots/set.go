package slots

import "math/bits"

// set is a set of small numbers: slots or GPUs of this node.
type set []uint64

func full(n int32) set {
	s := make(set, (n+63)/64)
	for i := range n {
		s[i/64] |= 1 << (i % 64)
	}
	return s
}

func (s set) count() (n int32) {
	for _, w := range s {
		n += int32(bits.OnesCount64(w))
	}
	return n
}

// low moves the n lowest members of s to t, growing t as needed.
func (s set) low(t set, n int32) set {
	t = t.grown(len(s))
	for i := 0; i < len(s) && n > 0; i++ {
		for s[i] != 0 && n > 0 {
			b := s[i] & -s[i]
			s[i] &^= b
			t[i] |= b
			n--
		}
	}
	return t
}

// high moves the n highest members of s to t; t is large enough.
func (s set) high(t set, n int32) {
	for i := len(s) - 1; i >= 0 && n > 0; i-- {
		for s[i] != 0 && n > 0 {
			b := uint64(1) << (63 - bits.LeadingZeros64(s[i]))
			s[i] &^= b
			t[i] |= b
			n--
		}
	}
}

// minus takes the members of t out of s.
func (s set) minus(t set) {
	for i := range min(len(s), len(t)) {
		s[i] &^= t[i]
	}
}

// plus puts the members of t into s.
func (s set) plus(t set) {
	for i := range min(len(s), len(t)) {
		s[i] |= t[i]
	}
}

func (s set) meets(t set) bool {
	for i := range min(len(s), len(t)) {
		if s[i]&t[i] != 0 {
			return true
		}
	}
	return false
}

func (s set) grown(n int) set {
	for len(s) < n {
		s = append(s, 0)
	}
	return s
}

func (s set) clone() set { return append(set(nil), s...) }

func (s set) list() []int32 {
	out := make([]int32, 0, s.count())
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			out = append(out, int32(i*64+bits.TrailingZeros64(w)))
		}
	}
	return out
}

func setOf(list []int32, n int32) set {
	s := make(set, (n+63)/64)
	for _, i := range list {
		if i >= 0 && i < n {
			s[i/64] |= 1 << (i % 64)
		}
	}
	return s
}
