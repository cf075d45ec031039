package filch

import "iter"

// Table keeps values under numbers. A number is never used again: the place of a dropped
// value gets another number, so that a late use of the old one finds nothing.
type Table[T any] struct {
	places []place[T]
	free   []int32
	last   uint32
}

type place[T any] struct {
	generation uint32 // 0: free
	value      T
}

// Add keeps a value, and returns its number.
func (t *Table[T]) Add(v T) uint64 {
	t.last++
	i := int32(len(t.places))
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.places = append(t.places, place[T]{})
	}
	t.places[i] = place[T]{t.last, v}
	return number(i, t.last)
}

func number(i int32, generation uint32) uint64 { return uint64(generation)<<32 | uint64(i) }

// Find is the value with a number, nil if the value was dropped; valid until the next Add.
func (t *Table[T]) Find(id uint64) *T {
	i := uint32(id)
	if uint64(i) >= uint64(len(t.places)) || t.places[i].generation == 0 || t.places[i].generation != uint32(id>>32) {
		return nil
	}
	return &t.places[i].value
}

// Drop drops a value.
func (t *Table[T]) Drop(id uint64) {
	if t.Find(id) != nil {
		t.places[uint32(id)] = place[T]{}
		t.free = append(t.free, int32(uint32(id)))
	}
}

// Len is the number of values.
func (t *Table[T]) Len() int { return len(t.places) - len(t.free) }

// All yields the values with their numbers, in the order of the places.
func (t *Table[T]) All() iter.Seq2[uint64, *T] {
	return func(yield func(uint64, *T) bool) {
		for i := range t.places {
			if p := &t.places[i]; p.generation != 0 && !yield(number(int32(i), p.generation), &p.value) {
				return
			}
		}
	}
}
