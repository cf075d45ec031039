package place

import (
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// Names reserved beside other names: binDir beside the instances in BASE, hostsFile
// beside the nodes in BASE/INSTANCE.
const (
	binDir    = "bin"
	hostsFile = "hosts"

	stoppedPrefix = ".stopped-" // no name of a node begins with a point
	keptPrefix    = ".kept-"
)

// CheckInstance refuses an invalid or reserved name of an instance.
func CheckInstance(name string) error {
	return checkName(name, "an instance", binDir, "its programs in a folder of that name")
}

// CheckNode refuses an invalid or reserved name of a node.
func CheckNode(name string) error {
	return checkName(name, "a node", hostsFile, "a file of that name beside the nodes")
}

func checkName(name, what, reserved, why string) error {
	switch {
	case name == reserved:
		return filch.Errorf(filch.Invalid, "%s cannot be called %s: filch keeps %s", what, name, why).
			WithHint("choose another name")
	case !ValidName(name):
		return filch.Errorf(filch.Invalid, "%s cannot be called %s", what, strconv.Quote(name)).
			WithHint("a name has 1 to 63 letters, digits, '-', '_' and '.'; it does not begin with '-' or '.'")
	}
	return nil
}

// ValidName reports whether s may be part of a path of names: 1 to 63 letters, digits,
// '-', '_' and '.', not beginning with a dot or dash.
func ValidName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '.' || s[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return false
		}
		return true
	})
}
