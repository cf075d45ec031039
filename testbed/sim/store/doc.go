// Package store runs the metadata store of dht, a handful of nodes at a time,
// in virtual time, under faults that a seed decides, and checks what its
// clients saw.
//
// A [World] is an engine with hosts, their disks and a list of members, and drives
// the very store.Store that the launcher drives, through the same methods and the
// same StoreOut. It holds no policy of its own. Clients insert, look
// up, remove, append, swap and merge; what they asked and were told is a
// history, which must be linearizable key by key. Whatever was acknowledged
// must be there at the end.
//
// A shard whose replicas are all over comes back from their disks. Only what is
// on none of them is excused, record by record and counted: disks rot, and a
// crash takes what was not synced. It happens where those who are still alive
// were declared dead, so that the shard was left to one that had just died: all
// its replicas within one detection time, which is beyond what is promised. If
// disks are gone and on the others even that they held a shard has rotted, it
// stays unavailable; otherwise every shard is whole again soon after the last
// fault. No disk rots that the roster needs, as far as anybody knows; but a move
// of the acceptors that its proposer took with it may come true later, and then the
// roster is lost, which is counted too. Then, and where shards stay unavailable,
// the loss is accepted, as a person would: everything must be whole again after
// that, and answer.
//
// Most runs have 3 to 9 nodes. Some grow from 14 to 20 while the faults come: their
// shards are split.
//
// Half of the faults are aimed at the primary of a key that is in use, and keys
// live for less than a failover, for about one, and for the whole run: faults
// that are spread evenly over keys that soon die show next to nothing.
package store
