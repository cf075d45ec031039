package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cpusMax bounds the number of a CPU. Linux for x86-64 supports 8,192 CPUs.
const cpusMax = 1 << 16

// parseList reads a list of CPUs as Linux writes lists: 0-3,8 or 0-31:2/8, the first 2 of
// each group of 8. The result is ascending, without repetitions.
func parseList(s string) ([]int32, error) {
	var all []int32
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		span, stride, _ := strings.Cut(part, ":")
		used, group := 1, 1
		if stride != "" {
			u, g, _ := strings.Cut(stride, "/")
			var err, err2 error
			used, err = strconv.Atoi(u)
			group, err2 = strconv.Atoi(g)
			if cmp.Or(err, err2) != nil || used < 1 || group < used {
				return nil, fmt.Errorf("%q is not a list of CPUs", part)
			}
		}
		from, to, ok := strings.Cut(span, "-")
		if !ok {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 32)
		last, err2 := strconv.ParseUint(to, 10, 32)
		if cmp.Or(err, err2) != nil || first > last || last >= cpusMax {
			return nil, fmt.Errorf("%q is not a list of CPUs", part)
		}
		for c := first; c <= last; c++ {
			if int(c-first)%group < used {
				all = append(all, int32(c))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// FormatList writes ascending CPUs as Linux does: 0-3,8.
func FormatList(cpus []int32) string {
	var b []byte
	for i := 0; i < len(cpus); {
		n := 1
		for i+n < len(cpus) && cpus[i+n] == cpus[i]+int32(n) {
			n++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(cpus[i]), 10)
		if n > 1 {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(cpus[i+n-1]), 10)
		}
		i += n
	}
	return string(b)
}

// both returns the numbers in a and in b.
func both(a, b []int32) []int32 {
	var all []int32
	for _, c := range a {
		if _, ok := slices.BinarySearch(b, c); ok {
			all = append(all, c)
		}
	}
	return all
}

// without returns the numbers of a that are not in b.
func without(a, b []int32) []int32 {
	var all []int32
	for _, c := range a {
		if _, ok := slices.BinarySearch(b, c); !ok {
			all = append(all, c)
		}
	}
	return all
}
