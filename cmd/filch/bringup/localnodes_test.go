package bringup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/topology"
	"github.com/filch-hpc/filch/testbed/machinetree"
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
		cores := make([]filch.Processor, c.cores)
		for i := range cores {
			cores[i] = filch.Processor{CPUs: []int32{int32(i)}, Core: int32(i)}
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

func TestShareKeepsHardwareThreadsTogether(t *testing.T) {
	m, err := topology.Read(machinetree.Machine{Sockets: 1, Cores: 4, Threads: 2}.Tree())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		threads bool
		want    string
	}{
		{false, "0-1,4-5/2 2-3,6-7/2"},
		{true, "0-1,4-5/4 2-3,6-7/4"},
	} {
		var got []string
		for i := range 2 {
			var n place.Node
			share(&n, m.Processors(c.threads), i, 2, 0)
			got = append(got, fmt.Sprintf("%s/%d", topology.FormatList(n.Cores), n.Slots))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("threads %t: got %s, want %s", c.threads, s, c.want)
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
