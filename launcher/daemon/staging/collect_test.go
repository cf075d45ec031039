package staging

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// A file whose task's record cannot be read is missing for the client, which then keeps the file on
// its node; a task that never ran has no file.
func TestCollectTellsUnreadRecords(t *testing.T) {
	for name, x := range map[string]struct {
		kind   filch.Kind
		cannot bool
	}{
		"unreachable": {filch.Unavailable, true},
		"damaged":     {filch.Internal, true},
		"never-ran":   {filch.NotFound, false},
	} {
		t.Run(name, func(t *testing.T) {
			find := func(int32) (*launcher.Task, error) { return nil, filch.Errorf(x.kind, "no record") }
			info, err := (&Files{}).Collect(7, t.TempDir(), []wire.CollectFile{{Task: 3, Path: "out"}}, find)
			if err != nil || len(info.Missing) != 1 || strings.HasPrefix(info.Missing[0], "cannot get ") != x.cannot {
				t.Errorf("got %q, %v; want \"cannot get\": %v", info.Missing, err, x.cannot)
			}
		})
	}
}
