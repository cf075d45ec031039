package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// Since is the moment that an option --since TIME means, in Unix nanoseconds; 0 without the
// option.
func Since(p *pflag.FlagSet, since time.Duration) (int64, error) {
	switch {
	case !p.Changed("since"):
		return 0, nil
	case since <= 0:
		return 0, ui.Misused(filch.Errorf(filch.Invalid, "--since takes a time of more than 0"))
	}
	return time.Now().Add(-since).UnixNano(), nil
}
