package spec

import (
	"slices"
	"strconv"
	"strings"
)

// Variables that -c sets.
const (
	cpusVariable    = "FILCH_CPUS_PER_TASK="
	threadsVariable = "OMP_NUM_THREADS="
)

// WithCPUs returns env, the environment of processes, with the variables of -c:
// FILCH_CPUS_PER_TASK, and OMP_NUM_THREADS unless the user has set it. Zero cpus stands for
// no -c. WithCPUs removes the variables of the -c of the job around the client, whose
// environment is outer; sets are the variables that the command line sets.
func WithCPUs(env, outer, sets []string, cpus int32) []string {
	value := func(list []string, name string) (string, bool) {
		for _, kv := range slices.Backward(list) {
			if v, ok := strings.CutPrefix(kv, name); ok {
				return v, true
			}
		}
		return "", false
	}
	_, told := value(sets, threadsVariable)
	if around, ours := value(outer, cpusVariable); ours {
		env = slices.DeleteFunc(env, func(kv string) bool {
			return strings.HasPrefix(kv, cpusVariable) || !told && kv == threadsVariable+around
		})
	}
	if cpus == 0 {
		return env
	}
	n := strconv.Itoa(int(cpus))
	env = append(env, cpusVariable+n)
	if _, set := value(env, threadsVariable); !set {
		env = append(env, threadsVariable+n)
	}
	return env
}
