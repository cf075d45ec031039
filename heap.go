package filch

// Heap is a priority queue: the element before all others is the first of the slice.
// An order without ties makes the sequence of [Heap.Pop] independent of the sequence of
// [Heap.Push].
type Heap[T any, P interface {
	*T
	Before(*T) bool
}] []T

// arity is the number of children of an element: a wide heap touches less memory than
// a binary heap.
const arity = 4

// Push adds x.
func (h *Heap[T, P]) Push(x T) {
	*h = append(*h, x)
	h.up(len(*h)-1, x)
}

// Pop removes and returns the first element; there must be an element.
func (h *Heap[T, P]) Pop() T { return h.Remove(0) }

// Remove removes and returns the element at index i of the slice.
func (h *Heap[T, P]) Remove(i int) T {
	l := *h
	var zero T
	n := len(l) - 1
	x, last := l[i], l[n]
	l[n] = zero
	*h = l[:n]
	if i == n {
		return x
	}
	if i > 0 && P(&last).Before(&l[(i-1)/arity]) {
		h.up(i, last)
	} else {
		h.down(i, last)
	}
	return x
}

// up puts x at i, or above.
func (h *Heap[T, P]) up(i int, x T) {
	l := *h
	for i > 0 {
		parent := (i - 1) / arity
		if !P(&x).Before(&l[parent]) {
			break
		}
		l[i] = l[parent]
		i = parent
	}
	l[i] = x
}

// down puts x at i, or below.
func (h *Heap[T, P]) down(i int, x T) {
	l := *h
	for {
		child := arity*i + 1
		if child >= len(l) {
			break
		}
		least := child
		for k := child + 1; k < min(child+arity, len(l)); k++ {
			if P(&l[k]).Before(&l[least]) {
				least = k
			}
		}
		if !P(&l[least]).Before(&x) {
			break
		}
		l[i] = l[least]
		i = least
	}
	l[i] = x
}

// Ordered reports whether no element comes before its parent; tests call it.
func (h Heap[T, P]) Ordered() bool {
	for i := 1; i < len(h); i++ {
		if P(&h[i]).Before(&h[(i-1)/arity]) {
			return false
		}
	}
	return true
}
