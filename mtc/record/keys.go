package record

import (
	"strconv"

	"github.com/filch-hpc/filch"
)

// Records is how many records a job may have, its own included.
func (j *Job) Records() int {
	n := int(j.Blocks()) + int(j.zones()) + int(j.Long) + 3
	if j.Lines {
		n += int(j.Payloads())
	}
	return n
}

// Blocks is the number of records with the ends of the job's tasks.
func (j *Job) Blocks() int32 { return ceil(j.Total, BlockSize) }

// Payloads is the number of records with the lines of the job's tasks, if the tasks have
// lines.
func (j *Job) Payloads() int32 { return ceil(j.Total, PayloadSize) }

func (j *Job) zones() int32 { return ceil(j.Total, ZoneSize) }

func ceil(n, size int32) int32 { return (n + size - 1) / size }

// Key names the i-th record of a job. The records of an ended job may be removed in this
// order: a zone after its blocks, which would report their tallies to the zone, and the
// job's own record last, since this record states that the others need no more work.
func (j *Job) Key(id filch.JobID, i int) string {
	n := int32(i)
	if n < j.Blocks() {
		return KeyBlock(id, n)
	}
	if n -= j.Blocks(); n < j.zones() {
		return KeyZone(id, n)
	}
	switch n -= j.zones(); {
	case i == j.Records()-1:
		return KeyJob(id)
	case n == 0:
		return KeyCap(id)
	case n == 1:
		return KeySpec(id)
	case n-2 < j.Long:
		return KeyLong(id, n-2)
	}
	return KeyPayload(id, n-2-j.Long)
}

// Prefix begins the keys of all records of jobs.
const Prefix = "j/"

// KeyJob names the record of a job's state.
func KeyJob(j filch.JobID) string { return Prefix + j.String() }

// KeySpec names the record of a job's spec.
func KeySpec(j filch.JobID) string { return KeyJob(j) + "/s" }

// KeyCap names the record of a job's tokens.
func KeyCap(j filch.JobID) string { return KeyJob(j) + "/k" }

// KeyLicense names the record of the tokens of a license, a resource that the nodes share.
func KeyLicense(name string) string { return KeyCap(0) + "/" + name }

// KeyZone names the record of the zone around an index.
func KeyZone(j filch.JobID, zone int32) string { return KeyJob(j) + "/z/" + strconv.Itoa(int(zone)) }

// KeyBlock names the record of a block.
func KeyBlock(j filch.JobID, block int32) string { return KeyJob(j) + "/b/" + strconv.Itoa(int(block)) }

// KeyPayload names the record of 8 payloads.
func KeyPayload(j filch.JobID, part int32) string { return KeyJob(j) + "/p/" + strconv.Itoa(int(part)) }

// KeyLong names the record of a chunk of a long text.
func KeyLong(j filch.JobID, chunk int32) string { return KeyJob(j) + "/l/" + strconv.Itoa(int(chunk)) }

// PartOf is the job of a key, not ok for the key of a license; own reports whether the key is
// [KeyJob]'s.
func PartOf(key string) (j filch.JobID, own, ok bool) {
	p, ok := ParseKey(key)
	return p.Job, p.What == 0, ok && p.Job > 0
}

// Key is a parsed key.
type Key struct {
	Job     filch.JobID
	What    byte // 0 the job, else s, k, z, b, p, l; t is of the mirror
	Number  int32
	License string // with k: a resource of the instance, and Job is 0
}

// ParseKey reads a key; ok is false for a key of another package.
func ParseKey(key string) (p Key, ok bool) {
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
	p.Job = filch.JobID(id)
	if rest = rest[i:]; rest == "" {
		return p, true
	}
	if len(rest) < 2 || rest[0] != '/' {
		return p, false
	}
	p.What = rest[1]
	switch p.What {
	case 's', 'k':
		if p.What == 'k' && p.Job == 0 && len(rest) > 3 && rest[2] == '/' {
			p.License = rest[3:]
			return p, true
		}
		return p, len(rest) == 2
	case 't':
		return p, len(rest) > 3 && key[:len(KeyRun)] == KeyRun
	case 'z', 'b', 'p', 'l':
		n, err := strconv.ParseUint(rest[min(3, len(rest)):], 10, 31)
		p.Number = int32(n)
		return p, err == nil && rest[2] == '/'
	}
	return p, false
}

// KeyRun begins the keys of runs, which are in the mirror and not in the store.
const KeyRun = Prefix + "0/t/"
