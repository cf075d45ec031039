package baseline

import "testing"

// TestAlbatross: the time that ADAGE saves with 1,024 nodes (ADAGE, IV.A, figure 3): 15 to 30 % with
// Epigenomics, 20 to 31 % with Inspiral. The paper has 18 to 66 % with CyberShake, 1 to 23 % with Montage
// and 21 % with Sipht, which the models do not have.
func TestAlbatross(t *testing.T) {
	for _, x := range []struct {
		name     string
		low, top float64 // percent; top of 0: not held
	}{{"Epigenomics_997", 15, 30}, {"Inspiral_1000", 20, 31}, {"CyberShake_1000", 18, 0}, {"Montage_1000", 1, 0}, {"Sipht_100", 21, 0}} {
		f := flow(t, x.name, 1024)
		late, err := LateBinding.Run(f)
		adage, err2 := AdageCode.Run(f)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		saved := 100 * (1 - float64(adage.Makespan)/float64(late.Makespan))
		t.Logf("figure: %s: ADAGE saves %.1f %% of %v, the bound is %v", x.name, saved, late.Makespan, f.Bound())
		if x.top > 0 && (saved < x.low-1 || saved > x.top+1) {
			t.Errorf("%s: ADAGE saves %.1f %%, the paper has %v to %v: want that within a point", x.name, saved, x.low, x.top)
		}
		if again, _ := LateBinding.Run(f); again != late || late.Makespan < f.Bound() {
			t.Errorf("%s: two runs took %v and %v, the bound is %v", x.name, late, again, f.Bound())
		}
	}
}
