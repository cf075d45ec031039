package cli

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/filch-hpc/filch/launcher"
)

// Person is the name of the user, and the name of this machine.
func Person() string {
	user := cmp.Or(os.Getenv("USER"), UserName())
	if user == "" { // a container may have no name for the user
		user = fmt.Sprintf("uid %d", os.Getuid())
	}
	if host, err := os.Hostname(); err == nil {
		user += " on " + host
	}
	return strings.ToValidUTF8(user[:min(len(user), launcher.MaxDrainBy)], "")
}
