package main

import (
	"encoding/json"
	"os"

	"github.com/filch-hpc/filch/launcher/config"
)

// configMain is `filchd config INSTANCE NODEFILE`; both arguments may be empty.
// configMain prints the settings as JSON, each with its origin.
func configMain(instance, nodeFile string) error {
	list, err := config.Show(config.FilesOf(instance), nodeFile)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(list)
}
