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
	ShardBitsMin = 6  // 64 shards: enough for 16 nodes
	ShardBitsMax = 12 // 4,096: the configs still fit in one small register
)

// Shard is a part of the key space: all keys with a hash beginning with certain
// bits. The number of a shard is a leading 1 bit followed by these bits. So a shard
// s is split into 2s and 2s+1, and no two shards of different depths have the same
// number.
type Shard uint16

// Point is a place in the id space: the first 64 bits of the hash.
type Point uint64

// PointOf is the place of a key.
func PointOf(k Key) Point {
	var buf [MaxKey]byte
	n := copy(buf[:], k)
	h := sha256.Sum256(buf[:n])
	return Point(binary.BigEndian.Uint64(h[:8]))
}

// PlaceOf is the place of a node.
func PlaceOf(n filch.NodeName) Point { return PointOf(Key(n)) }

// Shard is the shard of p among 1<<depth shards.
func (p Point) Shard(depth uint) Shard { return Shard(1<<depth | uint64(p)>>(64-depth)) }

// Depth is the number of bits fixed by s.
func (s Shard) Depth() uint { return uint(bits.Len16(uint16(s))) - 1 }

// Point is the first place of s.
func (s Shard) Point() Point {
	d := s.Depth()
	return Point(uint64(s)&(1<<d-1)) << (64 - d)
}

// Holds reports whether p lies in s.
func (s Shard) Holds(p Point) bool { return p.Shard(s.Depth()) == s }

// ShardOf is the shard of a key among n shards; n is a power of two.
func ShardOf(k Key, n int) Shard { return PointOf(k).Shard(uint(bits.Len(uint(n))) - 1) }
