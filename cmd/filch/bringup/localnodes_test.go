package bringup

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
)

func TestShareDividesCores(t *testing.T) {
	for _, c := range []struct {
		cores, nodes, slots int
		want                string
	}{
		{8, 4, 0, "0,1/2 2,3/2 4,5/2 6,7/2"},
		{2, 4, 0, "0/1 0/1 1/1 1/1"},
		{3, 2, 0, "0/1 1,2/2"},
		{2, 2, 4, "0/4 1/4"},
	} {
		cores := make([]int32, c.cores)
		for i := range cores {
			cores[i] = int32(i)
		}
		var got []string
		for i := range c.nodes {
			var m place.Node
			share(&m, cores, i, c.nodes, c.slots)
			var ids []string
			for _, core := range m.Cores {
				ids = append(ids, filch.JobID(core).String())
			}
			got = append(got, strings.Join(ids, ",")+"/"+filch.JobID(m.Slots).String())
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%d cores for %d nodes: got %s, want %s", c.cores, c.nodes, s, c.want)
		}
	}
}

func TestTwoWordsAreFixedByTheSecret(t *testing.T) {
	a, b := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	words, uuid := twoWords(a), uuidOf(a)
	if twoWords(a) != words || uuidOf(a) != uuid {
		t.Error("the same secret gives two names")
	}
	if uuidOf(a) == uuidOf(b) || len(uuidOf(a)) != 36 || !place.ValidName(twoWords(a)) {
		t.Errorf("got %s and %s, %s", uuidOf(a), uuidOf(b), twoWords(a))
	}
}
