package dht

import "slices"

// View is the config of a key's shard as this node knows it: its epoch, 0 if
// it knows none, and its replicas, the primary first.
func (s *Store) View(k Key) (shard Shard, epoch uint64, replicas []Replica) {
	if s.roster == nil {
		return 0, 0, nil
	}
	shard, c := s.roster.homeOf(k)
	return shard, c.epoch, slices.Clone(c.replicas)
}
