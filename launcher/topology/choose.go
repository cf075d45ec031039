package topology

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// Ways of --cpu-bind with a list: a CPU, or a mask of CPUs, for each rank of a node.
const (
	bindMap  = "map_cpu"
	bindMask = "mask_cpu"
)

// Choose returns the CPUs of rank i of n on a node, and the kind of the binding in srun's
// words: NONE, MAP, MASK or RANK. The list belongs to the ways bindMap and bindMask, which
// may name CPUs that were not lent. See bind for the other ways.
func Choose(way string, list []string, lent []filch.Processor, i, n int) (cpus []int32, kind string) {
	kind = "MASK"
	switch way {
	case bindMap, bindMask:
		if list = repeated(list); len(list) == 0 {
			break
		}
		if way == bindMask {
			cpus = maskCPUs(list[i%len(list)])
			break
		}
		if c, err := strconv.ParseInt(list[i%len(list)], 0, 32); err == nil && c >= 0 && c < cpusMax {
			cpus, kind = []int32{int32(c)}, "MAP"
		}
	case bindRank:
		cpus, kind = bind(way, lent, i, n), "RANK"
	default:
		cpus = bind(way, lent, i, n)
	}
	if len(cpus) == 0 {
		kind = "NONE"
	}
	return cpus, kind
}

// repeatMax bounds the entries of a list after repetitions: as many as a node has ranks.
const repeatMax = 1 << 20

// repeated expands srun's "VALUE*COUNT".
func repeated(list []string) []string {
	var all []string
	for _, e := range list {
		value, count, ok := strings.Cut(e, "*")
		n := 1
		if ok {
			n, _ = strconv.Atoi(count)
		}
		for range min(max(n, 1), repeatMax-len(all)) {
			all = append(all, value)
		}
	}
	return all
}

// maskCPUs reads a hexadecimal mask.
func maskCPUs(mask string) []int32 {
	n, ok := new(big.Int).SetString(strings.TrimPrefix(strings.ToLower(mask), "0x"), 16)
	if !ok || n.Sign() <= 0 {
		return nil
	}
	var cpus []int32
	for c := range min(n.BitLen(), cpusMax) {
		if n.Bit(c) == 1 {
			cpus = append(cpus, int32(c))
		}
	}
	return cpus
}
