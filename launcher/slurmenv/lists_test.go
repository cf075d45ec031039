package slurmenv

import (
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

func nodesOf(names string) (nodes []filch.NodeName) {
	for n := range strings.FieldsSeq(names) {
		nodes = append(nodes, filch.NodeName(n))
	}
	return nodes
}

func TestHostlist(t *testing.T) {
	for names, want := range map[string]string{
		"n1":                      "n1",
		"n1 n2 n3":                "n[1-3]",
		"n1 n3":                   "n[1,3]",
		"n1 n2 n4 n7 n8":          "n[1-2,4,7-8]",
		"n8 n9 n10 n11":           "n[8-11]",
		"n08 n09 n10":             "n[08-10]",
		"n09 n11":                 "n[09,11]",
		"a b":                     "a,b",
		"login n1 n2":             "login,n[1-2]",
		"n1 n2 gpu1 gpu2 login":   "n[1-2],gpu[1-2],login",
		"n3 n1":                   "n[3,1]",
		"10 11":                   "[10-11]",
		"rack1-n1 rack1-n2":       "rack1-n[1-2]",
		"n1 m1 n2":                "n1,m1,n2",
		"n99999999999999999999 n": "n99999999999999999999,n",
	} {
		if got := Hostlist(nodesOf(names)); got != want {
			t.Errorf("%s: got %s, want %s", names, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for want, ranks := range map[string][]int32{
		"2(x3),1": {2, 2, 2, 1}, "4": {4}, "1,2,1": {1, 2, 1}, "3(x2)": {3, 3},
	} {
		if got := counts(ranks); got != want {
			t.Errorf("%v: got %s, want %s", ranks, got, want)
		}
		if got := Counts(want); !slices.Equal(got, ranks) {
			t.Errorf("%s: got %v, want %v", want, got, ranks)
		}
	}
}

func TestCountsOfNonsense(t *testing.T) {
	for _, text := range []string{"", "x", "2(x0)", "2(x)", "2(x9999999)", "1,,2"} {
		if got := Counts(text); got != nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
