// Package disk is an append-only log of (key, value) entries in a directory of one
// node. The last entry of a key is the current one; keys and values are opaque.
//
// [Open] takes the directory for this process, reads every segment once and skips
// damaged parts; [Log.Each] then yields the current entries. [Log.Append] never
// waits: the owner of the log numbers the entries, from 1 in the life of a log, and a
// goroutine writes and syncs the entries in groups. The goroutine syncs every [Config.SyncEvery]
// while entries wait, and at once after [Log.Hurry]. [Config.Synced] then receives
// the number up to which all entries are on the disk. With SyncEvery below 0 the
// log never syncs, and writes in [Log.Flush] only: such a log survives its process,
// not the machine.
//
// An entry is kept as a record with two checksums, over the record's head and over
// the body. Both begin with the salt in the segment's name. So a damaged body costs
// one record. A damaged head or a block of zeros costs the bytes up to the next
// head. Bytes resembling a record, because a value holds a piece of a log, are not
// taken for a record. Damage is reported and never keeps a log from opening. The
// damaged segment is rewritten without the damage, but not before an entry of this
// process is durable: if the owner's first entry notes the damage, the log reports
// the damage again in every life until the note is durable.
//
// A record has a sequence number. Of two records of a key, the record with the
// higher number is current, wherever the two lie. Compaction copies the current
// records of a segment to the end, syncs the copies, and removes the segment. After
// a crash between any two of these steps some records exist twice, and nothing else
// is wrong. A removal is a record too, kept while any segment holds another record
// of the key.
//
// When the disk is full or fails, the log reports the failure and keeps the
// unwritten entries in memory, the last entry of each key. Entries already written
// remain readable, the torn end is cut off, and the log tries again until it
// succeeds. A log of more than a few segments keeps the room of one segment in
// reserve, so removals and compaction can go on after the log itself filled the
// disk. The quota works like a smaller disk: the owner watches [Stats] and removes
// old entries.
//
// After a failed sync the log writes the unsynced entries again, elsewhere: the
// kernel may have forgotten the pages. In a crash, entries never reported as synced
// may be lost in part and in any order.
package disk
