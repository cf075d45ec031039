package store

import (
	"encoding/binary"

	"github.com/filch-hpc/filch/dht"
)

// recordKey is where the disk has a record; the other entries have names of
// their own.
const recordKey = "r/"

func markerKey(sh dht.Shard) string {
	return "m/" + string(binary.BigEndian.AppendUint16(nil, uint16(sh)))
}
