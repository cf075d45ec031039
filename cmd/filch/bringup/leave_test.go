package bringup

import (
	"os"
	"testing"

	"github.com/filch-hpc/filch/launcher/config/place"
)

// TestTheLastAllocationRemovesTheHome: two allocations of an instance end at the same time. The
// first looks while launchers of the second run; the second ends between that look and what the
// first does about it. No home is left behind.
func TestTheLastAllocationRemovesTheHome(t *testing.T) {
	for _, c := range []struct {
		name string
		made bool // the first allocation made the home, not the second
	}{{"the-maker-first", true}, {"the-maker-last", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("FILCH_HOME", t.TempDir())
			home, err := place.HomeOf("two-words")
			if err == nil {
				err = home.Make()
			}
			secret := make([]byte, place.SecretBytes)
			if err == nil {
				err = place.WriteSecret(home.Secret(), secret)
			}
			if err != nil {
				t.Fatal(err)
			}
			first := &coordinator{home: home, secret: secret, made: c.made}
			second := &coordinator{home: home, secret: secret, made: !c.made}
			first.leaveHome(func(place.Home) bool {
				second.leaveHome(func(place.Home) bool { return false })
				return true
			})
			if _, err := os.Stat(string(home)); !os.IsNotExist(err) {
				list, _ := os.ReadDir(string(home))
				t.Errorf("the home is there: %v, %v", list, err)
			}
		})
	}
}
