package dht

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/filch-hpc/filch"
)

// Key names a record: at most [MaxKey] bytes, not empty.
type Key string

// The numbers of shards.
const (
	shardBitsMin = 6  // 64 shards: enough for 16 nodes
	shardBitsMax = 12 // 4,096: their configs still fit in one small register
)

// Shard is a part of the key space: those keys whose hash begins with certain
// bits. It is a number in which a leading one precedes these bits, so that a
// shard s is split into 2s and 2s+1, and no two shards of different depths
// have the same number.
type Shard uint16

// point is a place in the id space, the first 64 bits of it.
type point uint64

// pointOf is where a key lies.
func pointOf(k Key) point {
	var buf [MaxKey]byte
	n := copy(buf[:], k)
	h := sha256.Sum256(buf[:n])
	return point(binary.BigEndian.Uint64(h[:8]))
}

// placeOf is where a node lies.
func placeOf(n filch.NodeName) point { return pointOf(Key(n)) }

// shard is the one of 1<<depth shards in which p lies.
func (p point) shard(depth uint) Shard { return Shard(1<<depth | uint64(p)>>(64-depth)) }

// depth is the number of bits that s fixes.
func (s Shard) depth() uint { return uint(bits.Len16(uint16(s))) - 1 }

// point is the first place of s.
func (s Shard) point() point {
	d := s.depth()
	return point(uint64(s)&(1<<d-1)) << (64 - d)
}

// holds reports whether p lies in s.
func (s Shard) holds(p point) bool { return p.shard(s.depth()) == s }

// ShardOf is the shard of a key when there are n of them, a power of two.
func ShardOf(k Key, n int) Shard { return pointOf(k).shard(uint(bits.Len(uint(n))) - 1) }
