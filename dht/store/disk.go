package store

import (
	"encoding/binary"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/varint"
)

// disk is the log on this node's disk, with the gate for the messages and answers that
// depend on the log.
type disk struct {
	*input
	logged uint64 // number of the last entry
	synced uint64
	reason string // why the disk accepts no entries; "" while the disk works
	born   uint64 // incarnation of this disk's first life; 0 for a disk of unknown age
	// Removals logged while the disk accepted no entries.
	missed map[string]bool
	gate   syncGate
}

// hurry asks the shell to sync the log up to an entry.
func (d *disk) hurry(after uint64) { d.out.Hurry = max(d.out.Hurry, after) }

// log appends an entry for the disk; nil removes. While the disk accepts no entries, log
// remembers the removals only: DiskBack logs everything else again.
func (d *disk) log(k string, value []byte) {
	if d.reason != "" {
		if value == nil {
			d.missed[k] = true
		}
		return
	}
	if d.logged == 0 && k != diskBorn && d.born == 0 {
		d.born = d.self.Incarnation
		d.log(diskBorn, varint.AppendUvarints(nil, d.born))
	}
	d.logged++
	d.out.Logs = append(d.out.Logs, LogEntry{d.logged, k, value})
}

// logBirth begins the disk of a node with a first roster and an empty log. No message
// with the roster's epoch leaves this node before the disk has the entry: afterward the
// node may become an acceptor, and a later life accepts that place only if the disk is as
// old.
func (d *disk) logBirth() {
	if d.born != 0 || d.reason != "" {
		return
	}
	d.born = d.self.Incarnation
	d.log(diskBorn, varint.AppendUvarints(nil, d.born))
	d.gate.floor = d.logged
	d.hurry(d.logged)
}

// recordKey is where the disk has a record; the other entries have names of
// their own.
const recordKey = "r/"

func markerKey(sh dht.Shard) string {
	return "m/" + string(binary.BigEndian.AppendUint16(nil, uint16(sh)))
}
