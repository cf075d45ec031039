package pmi_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher/pmi"
)

func TestMapping(t *testing.T) {
	tests := map[string]struct {
		nodes []int32
		want  string
	}{
		"one-node":      {[]int32{0, 0}, "(vector,(0,1,2))"},
		"block":         {[]int32{0, 0, 0, 0, 1, 1, 1, 1}, "(vector,(0,2,4))"},
		"cyclic":        {[]int32{0, 1, 0, 1}, "(vector,(0,2,1))"},
		"cyclic-cut":    {[]int32{0, 1, 2, 0, 1}, "(vector,(0,3,1))"},
		"plane":         {[]int32{0, 0, 1, 1, 0, 0, 1, 1}, "(vector,(0,2,2))"},
		"uneven":        {[]int32{0, 0, 0, 1}, "(vector,(0,1,3),(1,1,1))"},
		"last-short":    {[]int32{0, 0, 1, 1, 2}, "(vector,(0,2,2),(2,1,1))"},
		"one-each":      {[]int32{0, 1, 2, 3}, "(vector,(0,4,1))"},
		"backward":      {[]int32{1, 0}, "(vector,(1,1,1),(0,1,1))"},
		"no-ranks":      {nil, ""},
		"uneven-cyclic": {[]int32{0, 1, 2, 0, 1, 0}, "(vector,(0,3,1),(0,2,1),(0,1,1))"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := pmi.Mapping(tt.nodes)
			if got != tt.want {
				t.Fatalf("%v is %q, want %q", tt.nodes, got, tt.want)
			}
			if got == "" {
				return
			}
			back, err := parseMapping(got, len(tt.nodes))
			if err != nil || !slices.Equal(back, tt.nodes) {
				t.Errorf("%q is %v, %v, want %v", got, back, err, tt.nodes)
			}
		})
	}
}

func TestMappingTooLong(t *testing.T) {
	nodes := make([]int32, 200)
	for i := range nodes {
		nodes[i] = int32(i * 7 % 199)
	}
	if got := pmi.Mapping(nodes); got != "" {
		t.Errorf("the mapping of scattered ranks has %d bytes, want none", len(got))
	}
	c := newCluster(t, []int32{0}, func(cfg *pmi.Config) { cfg.Mapping = "" })
	c.start(0)
	c.say(0, "cmd=get kvsname=%s key=PMI_process_mapping\n", kvsname)
	c.want(0, "cmd=get_result rc=-1 msg=key_PMI_process_mapping_not_found value=unknown\n")
}

func TestParseMappingRefuses(t *testing.T) {
	for _, s := range []string{
		"", "(vector)", "vector,(0,1,2)", "(vector,(0,1,2)", "(vector,(0,1))", "(vector,(0,1,2)))",
		"(vector,(0,0,1))", "(vector,(0,1,0))", "(vector,(-1,1,1))", "(vector,(0,1,9999999))", "(vector(0,1,2))", "(vector,(a,1,2))",
	} {
		if got, err := parseMapping(s, 4); err == nil {
			t.Errorf("%q is %v, want an error", s, got)
		}
	}
}

func FuzzMapping(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1})
	f.Add([]byte{0, 1, 0, 1, 0})
	f.Add([]byte{3, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		nodes := make([]int32, len(b))
		for i, n := range b {
			nodes[i] = int32(n)
		}
		s := pmi.Mapping(nodes)
		if s == "" {
			return
		}
		if len(s) > 673 {
			t.Fatalf("a mapping of %d bytes", len(s))
		}
		back, err := parseMapping(s, len(nodes))
		if err != nil || !slices.Equal(back, nodes) {
			t.Fatalf("%v became %q and that %v, %v", nodes, s, back, err)
		}
	})
}

func FuzzParseMapping(f *testing.F) {
	f.Add("(vector,(0,2,4))")
	f.Add("(vector,(0,1,3),(1,1,1))")
	f.Fuzz(func(t *testing.T, s string) {
		nodes, err := parseMapping(s, 64)
		if err != nil {
			return
		}
		if len(nodes) != 64 || !strings.HasPrefix(s, "(vector,(") {
			t.Fatalf("%q is %v", s, nodes)
		}
		if back, err := parseMapping(pmi.Mapping(nodes), 64); err == nil && !slices.Equal(back, nodes) {
			t.Fatalf("%v became %v", nodes, back)
		}
	})
}

var errMapping = errors.New("not a process mapping")

// parseMapping reads a mapping as MPICH does, and returns the node of each of size ranks.
func parseMapping(s string, size int) ([]int32, error) {
	body, ok := strings.CutPrefix(s, "(vector")
	if !ok {
		return nil, errMapping
	}
	body, ok = strings.CutSuffix(body, ")")
	if !ok || body == "" {
		return nil, errMapping
	}
	type block struct{ first, n, per int }
	var blocks []block
	for body != "" {
		rest, ok := strings.CutPrefix(body, ",(")
		if !ok {
			return nil, errMapping
		}
		in, after, ok := strings.Cut(rest, ")")
		f := strings.Split(in, ",")
		if !ok || len(f) != 3 {
			return nil, errMapping
		}
		var v [3]int
		for i := range f {
			n, err := strconv.ParseUint(f[i], 10, 20)
			if err != nil || n == 0 && i > 0 {
				return nil, errMapping
			}
			v[i] = int(n)
		}
		blocks = append(blocks, block{v[0], v[1], v[2]})
		body = after
	}
	nodes := make([]int32, 0, size)
	for len(nodes) < size {
		for _, b := range blocks {
			for i := 0; i < b.n*b.per && len(nodes) < size; i++ {
				nodes = append(nodes, int32(b.first+i/b.per))
			}
		}
	}
	return nodes, nil
}
