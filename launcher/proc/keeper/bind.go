package keeper

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// bind gives this thread the cpus of r, so the child starts on these cpus.
func (j *job) bind(r *rank) proc.Binding {
	var b proc.Binding
	cpus, kind := chooseCPUs(j.what.Bind, j.order.Cores, r.local, len(j.ranks))
	b.Kind = kind
	if len(cpus) == 0 {
		return b
	}
	if err := unix.SchedGetaffinity(0, &b.Was); err != nil {
		return b
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		if !j.stop.unbound {
			j.stop.unbound = true
			j.warn(fmt.Sprintf("%s: cannot bind rank %d to cpus %v: %s; it runs unbound", j.node(), r.id, cpus, proc.Reason(err)))
		}
		return b
	}
	b.Set = &set
	return b
}

// chooseCPUs picks the cpus of local rank i of n; none is no binding. By
// default a rank gets its share of the lent cores when there are enough.
func chooseCPUs(how launcher.Bind, lent []int32, i, n int) (cpus []int, kind string) {
	switch how.Kind {
	case "none":
		return nil, "NONE"
	case "map_cpu":
		list := repeated(how.List)
		if len(list) == 0 {
			return nil, "NONE"
		}
		if c, err := strconv.ParseUint(list[i%len(list)], 0, 16); err == nil {
			return []int{int(c)}, "MAP"
		}
		return nil, "NONE"
	case "mask_cpu":
		list := repeated(how.List)
		if len(list) == 0 {
			return nil, "NONE"
		}
		return maskCPUs(list[i%len(list)]), "MASK"
	case "rank":
		if len(lent) == 0 {
			return nil, "NONE"
		}
		return []int{int(lent[i%len(lent)])}, "RANK"
	}
	if len(lent) < n || n == 0 {
		return nil, "NONE"
	}
	for _, c := range lent[i*len(lent)/n : (i+1)*len(lent)/n] {
		cpus = append(cpus, int(c))
	}
	return cpus, "MASK"
}

// repeated expands srun's "VALUE*COUNT".
func repeated(list []string) []string {
	var all []string
	for _, e := range list {
		value, count, ok := strings.Cut(e, "*")
		n := 1
		if ok {
			n, _ = strconv.Atoi(count)
		}
		for range min(max(n, 1), launcher.MaxRanks-len(all)) {
			all = append(all, value)
		}
	}
	return all
}

// maskCPUs reads a hexadecimal mask.
func maskCPUs(mask string) []int {
	n, ok := new(big.Int).SetString(strings.TrimPrefix(strings.ToLower(mask), "0x"), 16)
	if !ok {
		return nil
	}
	var cpus []int
	for c := range min(n.BitLen(), 1024) {
		if n.Bit(c) == 1 {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// maskText writes a set as a hexadecimal mask, as srun's report does.
func maskText(set *unix.CPUSet) string {
	n := new(big.Int)
	for c := range 1024 {
		if set.IsSet(c) {
			n.SetBit(n, c, 1)
		}
	}
	return "0x" + strings.ToUpper(n.Text(16))
}

// reportBinding writes srun's line on the rank's stderr (--cpu-bind=verbose).
func (j *job) reportBinding(r *rank, b proc.Binding) {
	if !j.what.Bind.Verbose {
		return
	}
	set := b.Set
	if set == nil {
		set = new(unix.CPUSet)
		unix.SchedGetaffinity(r.pid, set)
	}
	line := fmt.Sprintf("cpu-bind=%s - %s, task %2d %2d [%d]: mask %s set\n", b.Kind, shortName(j.node()), r.id, r.local, r.pid, maskText(set))
	for _, s := range j.io.streams {
		if s.rank == r && s.fd >= 0 && (s.no == 2 || s.cut.Raw) {
			j.io.emit(s, []byte(line), false)
			return
		}
	}
	j.warn(strings.TrimSuffix(line, "\n"))
}

func shortName(n filch.NodeName) string { return output.Expand("%N", output.Place{Node: n}) }
