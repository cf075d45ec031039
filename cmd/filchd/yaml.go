package main

import (
	"encoding/json"
	"io"
	"os"

	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/mtc/workflow/yaml"
)

// yamlMain is `filchd yaml`: yamlMain reads YAML from standard input and prints JSON,
// each value on its line. For invalid YAML, yamlMain prints a [workflow.YAMLFault] and
// exits with the code [workflow.ExitYAML].
func yamlMain() error {
	text, err := io.ReadAll(io.LimitReader(os.Stdin, yaml.TextMax+1))
	if err != nil {
		return err
	}
	asJSON, line, err := yaml.JSON(text)
	if err == nil {
		_, err = os.Stdout.Write(asJSON)
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(workflow.YAMLFault{Line: line, Text: err.Error()}); err != nil {
		return err
	}
	os.Exit(workflow.ExitYAML)
	return nil
}
