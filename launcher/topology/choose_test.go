package topology

import (
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

func TestChoose(t *testing.T) {
	lent := cores(2, 3, 6, 7)
	smt := []filch.Processor{{CPUs: []int32{0, 4}}, {CPUs: []int32{1, 5}, Core: 1}, {CPUs: []int32{2, 6}, Core: 2, Socket: 1, Domain: 1}, {CPUs: []int32{3, 7}, Core: 3, Socket: 1, Domain: 1}}
	for _, c := range []struct {
		name string
		way  string
		list []string
		lent []filch.Processor
		i, n int
		want []int32
		kind string
	}{
		{"default-share", "", nil, lent, 1, 2, []int32{6, 7}, "MASK"},
		{"default-uneven", "", nil, lent, 2, 3, []int32{6, 7}, "MASK"},
		{"default-one-each", "", nil, lent, 3, 4, []int32{7}, "MASK"},
		{"default-more-ranks-than-cores", "", nil, lent, 0, 5, nil, "NONE"},
		{"default-nothing-lent", "", nil, nil, 0, 1, nil, "NONE"},
		{"none", "none", nil, lent, 0, 1, nil, "NONE"},
		{"cores", "cores", nil, lent, 0, 1, []int32{2, 3, 6, 7}, "MASK"},
		{"all-threads-of-a-core", "", nil, smt, 1, 4, []int32{1, 5}, "MASK"},
		{"threads", "threads", nil, smt, 1, 2, []int32{2, 3}, "MASK"},
		{"sockets", "sockets", nil, smt, 3, 4, []int32{2, 3, 6, 7}, "MASK"},
		{"ldoms", "ldoms", nil, smt, 0, 4, []int32{0, 1, 4, 5}, "MASK"},
		{"ldoms-of-both", "ldoms", nil, smt, 0, 1, []int32{0, 1, 2, 3, 4, 5, 6, 7}, "MASK"},
		{"cores-for-more-ranks", "cores", nil, smt, 5, 6, []int32{1, 5}, "MASK"},
		{"mask-beyond-1024", "mask_cpu", []string{"0x1" + strings.Repeat("0", 500)}, nil, 0, 1, []int32{2000}, "MASK"},
		{"map-beyond-1024", "map_cpu", []string{"2000"}, nil, 0, 1, []int32{2000}, "MAP"},
		{"rank", "rank", nil, lent, 5, 6, []int32{3}, "RANK"},
		{"rank-nothing-lent", "rank", nil, nil, 0, 1, nil, "NONE"},
		{"map", "map_cpu", []string{"0", "0x5"}, lent, 3, 4, []int32{5}, "MAP"},
		{"map-repeated", "map_cpu", []string{"0*2", "3*2"}, nil, 2, 4, []int32{3}, "MAP"},
		{"map-nonsense", "map_cpu", []string{"x"}, nil, 0, 1, nil, "NONE"},
		{"map-empty", "map_cpu", nil, nil, 0, 1, nil, "NONE"},
		{"mask", "mask_cpu", []string{"0x3", "c"}, nil, 1, 2, []int32{2, 3}, "MASK"},
		{"mask-long", "mask_cpu", []string{"0x1" + strings.Repeat("0", 20)}, nil, 0, 1, []int32{80}, "MASK"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, kind := Choose(c.way, c.list, c.lent, c.i, c.n)
			if !slices.Equal(got, c.want) || kind != c.kind {
				t.Errorf("got %v %s, want %v %s", got, kind, c.want, c.kind)
			}
		})
	}
}

func TestOrdered(t *testing.T) {
	sockets := []filch.Processor{{}, {}, {}, {}, {Socket: 1}, {Socket: 1}, {Socket: 1}, {Socket: 1}}
	cpus := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for _, c := range []struct {
		order string
		n     int
		want  []int
	}{
		{"", 4, cpus},
		{"block", 4, cpus},
		{"cyclic", 8, []int{0, 4, 1, 5, 2, 6, 3, 7}},
		{"cyclic", 4, []int{0, 1, 4, 5, 2, 3, 6, 7}},
		{"fcyclic", 4, []int{0, 4, 1, 5, 2, 6, 3, 7}},
		{"cyclic", 3, cpus},
		{"cyclic", 9, cpus},
		{"cyclic", 1, cpus},
	} {
		if got := Ordered(c.order, sockets, c.n, cpus); !slices.Equal(got, c.want) {
			t.Errorf("%s of %d ranks: got %v, want %v", c.order, c.n, got, c.want)
		}
	}
	if got := Ordered("cyclic", sockets[2:5], 3, cpus[2:5]); !slices.Equal(got, []int{2, 4, 3}) {
		t.Errorf("of uneven sockets: got %v", got)
	}
}

// cores are processors of one hardware thread each.
func cores(cpus ...int32) []filch.Processor {
	list := make([]filch.Processor, len(cpus))
	for i, c := range cpus {
		list[i] = filch.Processor{CPUs: []int32{c}, Core: int32(i)}
	}
	return list
}

func TestSharesOfCoresDoNotOverlap(t *testing.T) {
	for cores := range 20 {
		lent := make([]filch.Processor, cores)
		for i := range lent {
			lent[i] = filch.Processor{CPUs: []int32{int32(3 * i)}, Core: int32(i)}
		}
		for n := 1; n <= cores; n++ {
			var all []int32
			for i := range n {
				cpus := bind("", lent, i, n)
				if len(cpus) < cores/n {
					t.Fatalf("rank %d of %d got %v of %d cores", i, n, cpus, cores)
				}
				all = append(all, cpus...)
			}
			if len(all) != cores || len(slices.Compact(slices.Sorted(slices.Values(all)))) != cores {
				t.Fatalf("%d ranks share %d cores as %v", n, cores, all)
			}
		}
	}
}
