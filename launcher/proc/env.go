package proc

import (
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
)

// scrubbed are the beginnings of variable names that describe an outer job to an MPI
// library, or that filch sets. The submitting client has already applied the user's
// export rule: the user asked for every SLURM_* variable still in the environment.
var scrubbed = []string{
	"PMI_", "PMI2_", "PMIX_", "HYDI_", "HYDRA_", "MPI_LOCAL",
	"OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix=", "OMPI_MCA_schizo=", "PRTE_",
	"FLUX_", "FILCH_SECRET", "FILCH_GPUS=", "FILCH_SOCKET=", "FILCH_IDENT=",
	"FILCH_INSTANCE=", "FILCH_JOB=", "FILCH_RUN=", "FILCH_RANK=", "FILCH_SIZE=",
	"FILCH_LOCAL_RANK=", "FILCH_LOCAL_SIZE=", "FILCH_NODE=", "FILCH_NODES=",
	"FILCH_NODELIST=", "FILCH_ATTEMPT=", "FILCH_SERIAL=",
}

// Scrub returns env without the variables that must not reach a rank.
func Scrub(env []string) []string {
	kept := make([]string, 0, len(env)+64)
	for _, e := range env {
		if !isScrubbed(e) && strings.IndexByte(e, '=') > 0 && strings.IndexByte(e, 0) < 0 {
			kept = append(kept, e)
		}
	}
	return kept
}

func isScrubbed(e string) bool {
	// The folder of an outer job of ours for shared-memory segments.
	if strings.HasPrefix(e, "OMPI_MCA_") && strings.Contains(e, "_backing_directory="+shmPrefix) {
		return true
	}
	for _, p := range scrubbed {
		if strings.HasPrefix(e, p) {
			return true
		}
	}
	return false
}

// WithoutGPUs drops the variables that name GPUs, for a process that gets others: of two
// values of a variable, C programs read the first and shells the last.
func WithoutGPUs(env []string) []string {
	return slices.DeleteFunc(env, filch.IsGPUVariable)
}

// NoGPUs are the variables of a rank that asked for no GPU in a job with GPUs.
func NoGPUs() []string { return []string{"CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES="} }

// GPUShare is the part of local rank i of n of the lent GPUs; ranks share GPUs when there are
// fewer than ranks.
func GPUShare(gpus []string, i, n int) []string {
	from := i * len(gpus) / n
	return gpus[from:max((i+1)*len(gpus)/n, from+1)]
}

// GPUEnv gives local rank i of n its share of the lent GPUs. A name is a vendor, a colon
// and the runtime's name of the device; or a vendor and a number; or a number alone, for
// the variables of every runtime.
func GPUEnv(gpus []string, i, n int) []string {
	if len(gpus) == 0 || n == 0 {
		return nil
	}
	mine := GPUShare(gpus, i, n)
	lists := map[string][]string{}
	for _, g := range mine {
		number := filch.GPUNumber(g)
		switch {
		case strings.HasPrefix(g, "amd"), strings.HasPrefix(g, "rocm"):
			lists["ROCR_VISIBLE_DEVICES"] = append(lists["ROCR_VISIBLE_DEVICES"], number)
		case strings.HasPrefix(g, "intel"), strings.HasPrefix(g, "ze"):
			lists["ZE_AFFINITY_MASK"] = append(lists["ZE_AFFINITY_MASK"], number)
		case strings.HasPrefix(g, "nvidia"), strings.HasPrefix(g, "cuda"):
			lists["CUDA_VISIBLE_DEVICES"] = append(lists["CUDA_VISIBLE_DEVICES"], number)
		default:
			for _, v := range gpuVariables {
				lists[v] = append(lists[v], number)
			}
		}
	}
	env := []string{"FILCH_GPUS=" + strings.Join(mine, ",")}
	for _, v := range gpuVariables {
		if l, ok := lists[v]; ok {
			env = append(env, v+"="+strings.Join(l, ","))
		}
	}
	return env
}

var gpuVariables = []string{"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}
