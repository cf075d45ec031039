package launcher

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/filch-hpc/filch"
)

// Drain is the reason why a node takes no new work, as sent to all other nodes.
type Drain struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	Since  int64  `json:"since_unix_ns"`
}

// Limits of the texts of a drain, in bytes: every node stores the texts of every other
// node.
const (
	MaxDrainReason = 256
	MaxDrainBy     = 64
)

// BadNode begins the reason of a drain that a node began by itself because its tasks fail.
const BadNode = "bad node: "

// IsBad reports whether a reason is that of a node that drains by itself.
func IsBad(reason string) bool { return strings.HasPrefix(reason, BadNode) }

// Check rejects texts that are too long or not UTF-8.
func (d *Drain) Check() *filch.Error {
	for _, w := range []struct {
		what, text string
		most       int
	}{{"reason", d.Reason, MaxDrainReason}, {"user", d.By, MaxDrainBy}} {
		if len(w.text) > w.most {
			return filch.Errorf(filch.Invalid, "the %s of a drain has at most %d bytes, not %d", w.what, w.most, len(w.text))
		}
		if !utf8.ValidString(w.text) {
			return filch.Errorf(filch.Invalid, "the %s of a drain is no UTF-8: %s", w.what, strconv.Quote(w.text))
		}
	}
	return nil
}
