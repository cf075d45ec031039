package mtc

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// How a job is cut into records.
const (
	MaxTasks     = 1 << 30 // tasks of one job
	ZoneSize     = 1 << 16 // indices in a zone: one record says who owns which part
	BlockSize    = 256     // indices in a block: one record holds their ends
	PayloadSize  = 8       // payloads in a record, so that it stays below what the store takes
	MaxPayload   = 30 << 10
	zoneBlocks   = ZoneSize / BlockSize
	firstAttempt = filch.Attempt(1)
)

// RecordKind says what a record is and thereby how it merges.
type RecordKind uint8

// The kinds of records; they are stored: append only.
const (
	RecordFact    RecordKind = iota + 1 // bytes that the first writer sets (a spec)
	RecordJob                           // state, steward and tally of a job
	RecordZone                          // who owns which part of 65,536 indices, and the tally of their blocks
	RecordBlock                         // ends, attempts and single owners of 256 tasks
	RecordPayload                       // what belongs to each of 8 tasks
	RecordCap                           // who holds how many of the tokens of a capped job
)

// Merge takes a change into a record: a pure function. Old is nil for a record
// that does not exist; an error leaves it as it is. The same delta again gives
// the same record, and tells who said it again what it has.
type Merge func(old, delta []byte) (new, reply []byte, err error)

// Merges are the merges of all kinds, for the store.
func Merges() map[RecordKind]Merge {
	return map[RecordKind]Merge{
		RecordFact: mergeFact, RecordJob: mergeJob, RecordZone: mergeZone, RecordBlock: mergeBlock,
		RecordPayload: mergePayload, RecordCap: mergeCap,
	}
}

// Owner is a node in one of its lives.
type Owner struct {
	Node        filch.NodeName
	Incarnation uint64
}

func (o Owner) String() string { return fmt.Sprintf("%s#%d", o.Node, o.Incarnation) }

// Prefix is what the keys of all records of jobs begin with.
const Prefix = "j/"

// KeyJob names the record of a job's state.
func KeyJob(j filch.JobID) string { return Prefix + j.String() }

// KeySpec names the record of what a job runs.
func KeySpec(j filch.JobID) string { return KeyJob(j) + "/s" }

// KeyCap names the record of a job's tokens.
func KeyCap(j filch.JobID) string { return KeyJob(j) + "/k" }

// KeyZone names the record of the zone around an index.
func KeyZone(j filch.JobID, zone int32) string { return KeyJob(j) + "/z/" + strconv.Itoa(int(zone)) }

// KeyBlock names the record of a block.
func KeyBlock(j filch.JobID, block int32) string { return KeyJob(j) + "/b/" + strconv.Itoa(int(block)) }

// KeyPayload names the record of 8 payloads.
func KeyPayload(j filch.JobID, part int32) string { return KeyJob(j) + "/p/" + strconv.Itoa(int(part)) }

// PartOf is the job that a key is of; own: it is that of [KeyJob].
func PartOf(key string) (j filch.JobID, own, ok bool) {
	p, ok := parseKey(key)
	return p.job, p.what == 0, ok
}

// place is what a key says.
type place struct {
	job    filch.JobID
	what   byte // 0 the job, else s, k, z, b, p; t is of the mirror
	number int32
}

// parseKey reads a key; ok is false for one that is not of this package.
func parseKey(key string) (p place, ok bool) {
	if len(key) < 3 || key[:2] != Prefix {
		return p, false
	}
	rest := key[2:]
	id, i := 0, 0
	for ; i < len(rest) && i < 10 && rest[i] >= '0' && rest[i] <= '9'; i++ {
		id = id*10 + int(rest[i]-'0')
	}
	if i == 0 || id > 1<<31-1 {
		return p, false
	}
	p.job = filch.JobID(id)
	if rest = rest[i:]; rest == "" {
		return p, true
	}
	if len(rest) < 2 || rest[0] != '/' {
		return p, false
	}
	p.what = rest[1]
	switch p.what {
	case 's', 'k':
		return p, len(rest) == 2
	case 't':
		return p, len(rest) > 3 && key[:len(keyRun)] == keyRun
	case 'z', 'b', 'p':
		n, err := strconv.ParseUint(rest[min(3, len(rest)):], 10, 31)
		p.number = int32(n)
		return p, err == nil && rest[2] == '/'
	}
	return p, false
}

// verdict is what became of one operation of a delta.
type verdict uint8

const (
	vDone    verdict = iota
	vEnded           // too late: the task has its end
	vOther           // somebody else owns it, tried it or started it
	vInvalid         // makes no sense for this record
)

// Tally counts tasks by how they ended.
type Tally struct{ OK, Failed, Killed, Lost, Skipped, Cancelled int32 }

// Sum is all that ended.
func (t Tally) Sum() int32 { return t.OK + t.Failed + t.Killed + t.Lost + t.Skipped + t.Cancelled }

// Bad is what did not end well.
func (t Tally) Bad() int32 { return t.Sum() - t.OK }

// BadText counts what did not end well, by how it ended: "2 failed, 1 lost"; ""
// when all did.
func (t Tally) BadText() string {
	var parts []string
	for _, c := range []struct {
		n    int32
		word string
	}{{t.Failed, "failed"}, {t.Killed, "killed"}, {t.Lost, "lost"}, {t.Skipped, "skipped"}, {t.Cancelled, "cancelled"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	return strings.Join(parts, ", ")
}

// Plus is both together.
func (t Tally) Plus(u Tally) Tally {
	return Tally{
		t.OK + u.OK, t.Failed + u.Failed, t.Killed + u.Killed, t.Lost + u.Lost,
		t.Skipped + u.Skipped, t.Cancelled + u.Cancelled,
	}
}

func (t *Tally) add(s filch.State, n int32) {
	switch s {
	case filch.OK:
		t.OK += n
	case filch.Failed:
		t.Failed += n
	case filch.Killed:
		t.Killed += n
	case filch.Lost:
		t.Lost += n
	case filch.Skipped:
		t.Skipped += n
	case filch.Cancelled:
		t.Cancelled += n
	}
}

func (w *writer) tally(t Tally) {
	for _, n := range [...]int32{t.OK, t.Failed, t.Killed, t.Lost, t.Skipped, t.Cancelled} {
		w.uint(uint64(n))
	}
}

func (r *reader) tally() Tally {
	return Tally{r.index(), r.index(), r.index(), r.index(), r.index(), r.index()}
}

// mergeFact keeps what was written first.
func mergeFact(old, delta []byte) (val, reply []byte, err error) {
	if len(delta) > maxBlob {
		return nil, nil, errMalformed
	}
	if len(old) == 0 {
		return delta, nil, nil
	}
	if string(old) != string(delta) {
		return old, []byte{byte(vOther)}, nil
	}
	return old, nil, nil
}
