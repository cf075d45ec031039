package cli

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/spf13/pflag"
)

// NotEmpty refuses options that were given without text, as a shell does with an
// unset variable: a command without these options would run something else.
func NotEmpty(given *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if o := given.Lookup(name); o.Changed && o.Value.String() == "" {
			return ui.Misused(filch.Errorf(filch.Invalid, "--%s is empty", name).WithHint("a shell variable in the command may be unset"))
		}
	}
	return nil
}
