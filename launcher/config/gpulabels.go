package config

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/filch-hpc/filch"
)

// GPULabels returns labels for the model of the node's NVIDIA GPUs: the words of the model
// in small letters, so that an "NVIDIA A100-SXM4-40GB" gives nvidia, a100, sxm4 and 40gb.
// None if the GPUs are of several models: the labels are of the node. The driver names the
// model in the file DIR/PCI-ADDRESS/information, in the line "Model:".
func GPULabels(dir string) filch.Labels {
	files, _ := filepath.Glob(filepath.Join(dir, "*", "information"))
	model := ""
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return ""
		}
		m := modelOf(string(b))
		if m == "" || model != "" && m != model {
			return ""
		}
		model = m
	}
	words := strings.FieldsFunc(strings.ToLower(model), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.'
	})
	labels, err := filch.ReadLabels(strings.Join(words, ","))
	if err != nil {
		return ""
	}
	return labels
}

func modelOf(information string) string {
	for line := range strings.Lines(information) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "Model" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
