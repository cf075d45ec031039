//go:build mutants

package node

import (
	"github.com/filch-hpc/filch/launcher/node/origin"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/node/tasks"
)

// Plant switches on the named fault of a part and all other faults off; "" is none.
func Plant(name string) bool {
	known := name == ""
	for _, plant := range []func(string) bool{origin.Plant, ranks.Plant, records.Plant, tasks.Plant} {
		known = plant(name) || known
	}
	return known
}
