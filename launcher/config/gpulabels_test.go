package config

import (
	"os"
	"path/filepath"
	"testing"
)

// The trees are made up after the layout of NVIDIA's driver.
func TestGPULabels(t *testing.T) {
	const a100 = "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 42\nBus Type: \t PCIe\n"
	for _, c := range []struct {
		name string
		gpus []string
		want string
	}{
		{"none", nil, ""},
		{"two alike", []string{a100, a100}, "40gb,a100,nvidia,sxm4"},
		{"two models", []string{a100, "Model: Tesla V100\n"}, ""},
		{"no model", []string{"IRQ: 3\n"}, ""},
		{"other letters", []string{"Model: Tesla V100 / PCIe (rev. 2)\n"}, "2,pcie,rev.,tesla,v100"},
	} {
		dir := t.TempDir()
		for i, text := range c.gpus {
			gpu := filepath.Join(dir, "0000:0"+string(rune('1'+i))+":00.0")
			if err := os.MkdirAll(gpu, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(gpu, "information"), []byte(text), 0o444); err != nil {
				t.Fatal(err)
			}
		}
		if got := GPULabels(dir); string(got) != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
