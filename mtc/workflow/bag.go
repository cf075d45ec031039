package workflow

import (
	"math/bits"
	"strconv"

	"github.com/filch-hpc/filch"
)

// Limits on lists of values.
const (
	ListMax    = int64(1) << 31 // bytes of all values of a list
	SourcesMax = 64
)

// Values is a list of texts that takes four bytes more for each text. Values is plain
// data: End[i] is the end of text i.
type Values struct {
	Text []byte
	End  []uint32
}

// Add adds a value.
func (v *Values) Add(s string) error {
	if int64(len(v.Text))+int64(len(s)) > ListMax || int64(len(v.End)) >= BagMax {
		return filch.Errorf(filch.Invalid, "a list of values has more than %s, or more than %d values", Bytes(ListMax), BagMax)
	}
	v.Text = append(v.Text, s...)
	v.End = append(v.End, uint32(len(v.Text)))
	return nil
}

// Len is the number of values.
func (v *Values) Len() int64 { return int64(len(v.End)) }

// At is value i, counted from 0.
func (v *Values) At(i int64) string {
	from := uint32(0)
	if i > 0 {
		from = v.End[i-1]
	}
	return string(v.Text[from:v.End[i]])
}

// check is for values that [Values.Add] did not add.
func (v *Values) check() error {
	last := uint32(0)
	for _, e := range v.End {
		if e < last || int64(e) > int64(len(v.Text)) {
			return filch.Errorf(filch.Invalid, "a list of %d values in %d bytes has one that ends at %d, after %d", len(v.End), len(v.Text), e, last)
		}
		last = e
	}
	return nil
}

// Source is a list of values of a bag. A linked source walks beside the source before, up
// to the shorter of the two; other sources are combined, each value of a source with each
// value of the other.
type Source struct {
	Values Values
	Linked bool
}

// Bag is many tasks without edges, unfolded only on request: the indices of an array, or
// the combinations of the values of sources, of which the last varies fastest. A Bag is
// plain data; a reader of foreign data checks a Bag with [Bag.Check].
type Bag struct {
	Template Template
	Array    Array
	Sources  []Source
}

// Check returns an error for an invalid bag.
func (b *Bag) Check() error {
	if err := b.Array.check(); err != nil {
		return err
	}
	if len(b.Sources) > SourcesMax {
		return filch.Errorf(filch.Invalid, "%d sources of values, at most %d", len(b.Sources), SourcesMax)
	}
	if len(b.Array.Ranges) > 0 && len(b.Sources) > 0 {
		return filch.Errorf(filch.Invalid, "a bag is an array or has sources of values, not both")
	}
	for i := range b.Sources {
		if err := b.Sources[i].Values.check(); err != nil {
			return err
		}
		if i == 0 && b.Sources[i].Linked {
			return filch.Errorf(filch.Invalid, "the first source of values is linked to one before it")
		}
	}
	if b.Len() > BagMax {
		return filch.Errorf(filch.Invalid, "the sources of values make more than %d tasks", BagMax)
	}
	return nil
}

// group is a source with its linked sources: sources[from:to], and the length of the
// shortest.
type group struct {
	from, to int
	count    int64
}

func (b *Bag) groups(visit func(group)) {
	for i := 0; i < len(b.Sources); {
		g := group{from: i, to: i + 1, count: b.Sources[i].Values.Len()}
		for g.to < len(b.Sources) && b.Sources[g.to].Linked {
			g.count = min(g.count, b.Sources[g.to].Values.Len())
			g.to++
		}
		visit(g)
		i = g.to
	}
}

// Len is the number of tasks; more than [BagMax] is [BagMax]+1.
func (b *Bag) Len() int64 {
	if len(b.Sources) == 0 {
		return b.Array.Len()
	}
	total := uint64(1)
	b.groups(func(g group) {
		if high, low := bits.Mul64(total, uint64(g.count)); high > 0 || low > uint64(BagMax) {
			total = uint64(BagMax) + 1
		} else {
			total = low
		}
	})
	return int64(total)
}

// Values is the values of task i, counted from 0: an index, or a value of each source.
func (b *Bag) Values(i int64) ([]string, error) {
	if n := b.Len(); i < 0 || i >= n {
		return nil, filch.Errorf(filch.NotFound, "there is no task %d: the bag has %d", i, n)
	}
	if len(b.Sources) == 0 {
		at, _ := b.Array.At(i)
		return []string{strconv.FormatInt(at, 10)}, nil
	}
	var groups []group
	b.groups(func(g group) { groups = append(groups, g) })
	values := make([]string, len(b.Sources))
	for k := len(groups) - 1; k >= 0; k-- {
		g := groups[k]
		at := i % g.count
		i /= g.count
		for s := g.from; s < g.to; s++ {
			values[s] = b.Sources[s].Values.At(at)
		}
	}
	return values, nil
}

// Argv is the command of task i, counted from 0, on a slot counted from 1; 0 if the slot
// is not known yet.
func (b *Bag) Argv(i int64, slot int) ([]string, error) {
	values, err := b.Values(i)
	if err != nil {
		return nil, err
	}
	return b.Template.Expand(values, i+1, slot)
}
