// Package disk is an append-only log of (key, value) entries in a directory of
// one node. The last entry of a key counts; it knows nothing of what is in it.
//
// [Open] takes the directory for this process, reads every segment once and
// skips what is damaged; [Log.Each] then yields what counts. [Log.Append] never
// waits: it numbers the entries, from 1 in the life of a log, and a goroutine
// writes and syncs them in groups, every [Config.SyncEvery] while there is
// something, and at once after [Log.Hurry]. [Config.Synced] then says up to
// which number all is on the disk. With SyncEvery below 0 nothing is synced,
// and written by [Log.Flush] only: such a log survives its process, not the
// machine.
//
// An entry is kept as a record with two checksums, over its head and over its
// body, both begun with the salt in its segment's name. So a damaged body costs
// that one record, a damaged head or a block of zeros costs what lies up to the
// next head, and what only looks like a record, because a value holds a piece
// of a log, is not taken for one. Damage is reported and never keeps a log from
// opening. The damaged segment is rewritten without it, but not before something
// of this process is durable: an owner whose first entry notes the damage is
// told of it again in every life until that entry is there.
//
// A record has a sequence number, and of two records of a key the higher one
// counts wherever they lie. Compaction copies what counts of a segment to the
// end, syncs it, and removes the segment: after a crash between any two of these
// steps there are records twice, and nothing else. A removal is a record too,
// kept while any segment holds another record of its key.
//
// When the disk is full or fails, the log says so and keeps what it could not
// write in memory, of each key the last entry; what it had written remains
// readable, the torn end is cut off, and it tries again until it succeeds.
// A log of more than a few segments keeps the room of one in reserve, so that on
// a disk that it filled itself removals and compaction can go on. The quota works
// like a smaller disk: the owner watches [Stats] and removes what is old.
//
// After a failed sync what it had to sync is written again, elsewhere: the
// kernel may have forgotten those pages. What was never reported as synced may
// be lost in a crash in part and in any order.
package disk
