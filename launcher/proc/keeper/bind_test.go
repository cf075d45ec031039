package keeper

import (
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

func TestChooseCPUs(t *testing.T) {
	lent := []int32{2, 3, 6, 7}
	for _, c := range []struct {
		name string
		how  launcher.Bind
		lent []int32
		i, n int
		want []int
		kind string
	}{
		{"default-share", launcher.Bind{}, lent, 1, 2, []int{6, 7}, "MASK"},
		{"default-uneven", launcher.Bind{}, lent, 2, 3, []int{6, 7}, "MASK"},
		{"default-one-each", launcher.Bind{}, lent, 3, 4, []int{7}, "MASK"},
		{"default-more-ranks-than-cores", launcher.Bind{}, lent, 0, 5, nil, "NONE"},
		{"default-nothing-lent", launcher.Bind{}, nil, 0, 1, nil, "NONE"},
		{"none", launcher.Bind{Kind: "none"}, lent, 0, 1, nil, "NONE"},
		{"cores", launcher.Bind{Kind: "cores"}, lent, 0, 1, []int{2, 3, 6, 7}, "MASK"},
		{"rank", launcher.Bind{Kind: "rank"}, lent, 5, 6, []int{3}, "RANK"},
		{"rank-nothing-lent", launcher.Bind{Kind: "rank"}, nil, 0, 1, nil, "NONE"},
		{"map", launcher.Bind{Kind: "map_cpu", List: []string{"0", "0x5"}}, lent, 3, 4, []int{5}, "MAP"},
		{"map-repeated", launcher.Bind{Kind: "map_cpu", List: []string{"0*2", "3*2"}}, nil, 2, 4, []int{3}, "MAP"},
		{"map-nonsense", launcher.Bind{Kind: "map_cpu", List: []string{"x"}}, nil, 0, 1, nil, "NONE"},
		{"map-empty", launcher.Bind{Kind: "map_cpu"}, nil, 0, 1, nil, "NONE"},
		{"mask", launcher.Bind{Kind: "mask_cpu", List: []string{"0x3", "c"}}, nil, 1, 2, []int{2, 3}, "MASK"},
		{"mask-long", launcher.Bind{Kind: "mask_cpu", List: []string{"0x1" + strings.Repeat("0", 20)}}, nil, 0, 1, []int{80}, "MASK"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, kind := chooseCPUs(c.how, c.lent, c.i, c.n)
			if !slices.Equal(got, c.want) || kind != c.kind {
				t.Errorf("got %v %s, want %v %s", got, kind, c.want, c.kind)
			}
		})
	}
}

func TestSharesOfCoresDoNotOverlap(t *testing.T) {
	for cores := range 20 {
		lent := make([]int32, cores)
		for i := range lent {
			lent[i] = int32(3 * i)
		}
		for n := 1; n <= cores; n++ {
			var all []int
			for i := range n {
				cpus, _ := chooseCPUs(launcher.Bind{}, lent, i, n)
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
