package filch

import "strings"

// gpuVariables are the variables by which the vendors' runtimes learn the GPUs that a
// process may use. filch sets some for ranks and tasks with GPUs, and passes none of them on
// to such a rank or task.
var gpuVariables = [...]string{"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}

// IsGPUVariable reports whether NAME=VALUE or NAME is one of [gpuVariables].
func IsGPUVariable(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	for _, v := range gpuVariables {
		if v == name {
			return true
		}
	}
	return false
}

// GPUNumber is the runtime's name of a device out of a GPU's name: behind a vendor and a
// colon, or the number at the end.
func GPUNumber(gpu string) string {
	if _, number, named := strings.Cut(gpu, ":"); named {
		return number
	}
	return gpu[len(strings.TrimRight(gpu, "0123456789")):]
}
