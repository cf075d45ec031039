package place

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// Affinity returns the processors that this process may use, by the kernel's numbers:
// the affinity mask, not the machine's processors.
func Affinity() ([]int32, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, filch.Errorf(filch.Internal, "cannot find which cores this process may use: %s", err.Error())
	}
	var cores []int32
	for i := range len(set) * strconv.IntSize {
		if set.IsSet(i) {
			cores = append(cores, int32(i))
		}
	}
	return cores, nil
}

// Memory returns the memory of the machine in bytes, or the cgroup's limit if less; 0
// if unknown.
func Memory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	total := int64(info.Totalram) * int64(info.Unit)
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
			total = min(total, n)
		}
	}
	return total
}
