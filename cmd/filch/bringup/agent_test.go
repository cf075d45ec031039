package bringup

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch/cmd/filch/alloc"
)

func TestGrantedGPUs(t *testing.T) {
	for _, c := range []struct {
		name, kind, env string
		want            string
	}{
		{"numbers", alloc.Slurm, "CUDA_VISIBLE_DEVICES=0,2", "0 2"},
		{"none granted", alloc.Slurm, "CUDA_VISIBLE_DEVICES=", ""},
		{"nothing is said", alloc.Slurm, "", ""},
		{"nothing is said, own hosts: looked for", alloc.Hosts, "", "(nil)"},
		{"own hosts", alloc.Hosts, "CUDA_VISIBLE_DEVICES=1", "1"},
		{"uuids, as PBS names them", alloc.PBS, "CUDA_VISIBLE_DEVICES=GPU-8a3f,MIG-77/1/0", "nvidia:GPU-8a3f nvidia:MIG-77/1/0"},
		{"cut off as CUDA does it", alloc.Slurm, "CUDA_VISIBLE_DEVICES=0,-1,2", "0"},
		{"NoDevFiles, an old Slurm's word for none", alloc.Slurm, "CUDA_VISIBLE_DEVICES=NoDevFiles", ""},
		{"AMD", alloc.Slurm, "ROCR_VISIBLE_DEVICES=3,GPU-77", "amd3 amd:GPU-77"},
		{"Intel tiles", alloc.Slurm, "ZE_AFFINITY_MASK=0.0,0.1", "intel:0.0 intel:0.1"},
	} {
		name, value, set := strings.Cut(c.env, "=")
		gpus := grantedGPUs(c.kind, func(n string) (string, bool) { return value, set && n == name })
		got := strings.Join(gpus, " ")
		if gpus == nil {
			got = "(nil)"
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
