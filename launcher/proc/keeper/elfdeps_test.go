package keeper

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch/launcher/proc"
)

func TestLibCache(t *testing.T) {
	var c libCache
	found := c.find("libc.so.6")
	if len(found) < 5 || !proc.PathExists(found[0]) {
		t.Errorf("got %v", found)
	}
	for n := range len(c.data) / 97 {
		cachedLibs(c.data[:n*97], "libc.so.6")
	}
	broken := slices.Clone(c.data)
	for i := range broken[:min(len(broken), 4000)] {
		broken[i] ^= 0xff
		cachedLibs(broken, "libc.so.6")
	}
}
