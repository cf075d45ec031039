package daemon

import (
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

func TestFreeIndexIsLowAndFree(t *testing.T) {
	taken := map[int32]bool{}
	for len(taken) < 200 {
		index, err := freeIndex(taken)
		if err != nil {
			t.Fatal(err)
		}
		if index < 0 || taken[index] {
			t.Fatalf("got index %d, which is taken", index)
		}
		if most := int32(indexSpread + 3*len(taken)); index > most {
			t.Fatalf("got index %d of %d members, want one below %d", index, len(taken), most)
		}
		taken[index] = true
	}
}

func TestFreeIndexFindsTheLastOne(t *testing.T) {
	taken := map[int32]bool{}
	for i := range int32(launcher.IDStride) {
		taken[i] = i != 777
	}
	delete(taken, 777)
	if got, err := freeIndex(taken); err != nil || got != 777 {
		t.Errorf("got %d and %v, want 777", got, err)
	}
	taken[777] = true
	if got, err := freeIndex(taken); err == nil {
		t.Errorf("with all taken: got %d, want an error", got)
	}
}
