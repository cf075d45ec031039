package pmi

import "strings"

// pair is a key with its value.
type pair struct{ key, val string }

// store is the job's key-value set on this node: the pairs that came down with fences,
// and the pairs put by the ranks here since the last fence.
type store struct {
	done  map[string]string
	fresh []pair         // put since the last fence, in order
	at    map[string]int // index into fresh
	bytes int            // of all pairs
	cards bool           // a fence brought addresses of MPICH
}

func (s *store) init() {
	s.done = map[string]string{}
	s.at = map[string]int{}
}

const pairOverhead = 4 // two lengths on the wire

// put takes a pair of a rank here; a key put twice keeps the last value. The result is a
// word for the error, or "".
func (s *store) put(key, val string) string {
	switch {
	case key == "":
		return "missing_key"
	case len(key) > maxKey:
		return "key_too_long"
	case len(val) > maxValue:
		return "value_too_long"
	case strings.ContainsAny(key, " \n\x00") || strings.ContainsAny(val, "\n\x00"):
		return "bad_bytes"
	}
	i, again := s.at[key]
	grow := len(key) + len(val) + pairOverhead
	if again {
		grow = len(val) - len(s.fresh[i].val)
	}
	if s.bytes+grow > maxKVS || len(s.done)+len(s.fresh) >= maxKeys {
		return "kvs_full"
	}
	s.bytes += grow
	if again {
		s.fresh[i].val = strings.Clone(val)
		return ""
	}
	// Clones: the line around key and value may be much longer.
	key = strings.Clone(key)
	s.at[key] = len(s.fresh)
	s.fresh = append(s.fresh, pair{key, strings.Clone(val)})
	return ""
}

func (s *store) get(key string) (string, bool) {
	if i, ok := s.at[key]; ok {
		return s.fresh[i].val, true
	}
	v, ok := s.done[key]
	return v, ok
}

// take hands over the pairs put since the last fence; the pairs come back with the fence
// itself.
func (s *store) take(c *chunks) {
	for _, p := range s.fresh {
		c.add(p)
		s.bytes -= len(p.key) + len(p.val) + pairOverhead
		// Until the fence closes, gets on this node still find the pair.
		s.commit(p)
	}
	s.fresh = nil
	clear(s.at)
}

// commit makes a pair visible and reports whether the pair fits the limits.
func (s *store) commit(p pair) bool {
	grow := len(p.key) + len(p.val) + pairOverhead
	if old, ok := s.done[p.key]; ok {
		grow = len(p.val) - len(old)
	} else if len(s.done) >= maxKeys {
		return false
	}
	if s.bytes+grow > maxKVS {
		return false
	}
	s.bytes += grow
	s.done[p.key] = p.val
	if strings.HasPrefix(p.key, cardPrefix) {
		s.cards = true
	}
	return true
}

// cardPrefix begins the keys under which MPICH's ranks put their addresses, in
// the last fence of MPI_Init (src/util/mpir_pmi.c, pmi_allgather).
const cardPrefix = "-allgather-"
