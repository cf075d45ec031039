package pmix

import (
	"encoding/binary"

	"github.com/filch-hpc/filch"
)

// kind is a kind of frame between keeper and helper. A frame is the length of the rest, a
// kind and fields: numbers of four bytes, blobs with their length in front, all
// big-endian. The helper comes with the keeper, so a different protocol is refused, not
// bridged.
type kind uint8

const protocol = 3

// To the helper.
const (
	kindSetup     kind = iota + 1 // the job; once, first
	kindFenceDone                 // id, status, the blobs of all nodes
	kindModexAsk                  // id, rank of this node: asks for the rank's data
	kindModexDone                 // id, status, the data of another node's rank
	kindQuit                      // all ranks have ended
	kindDone                      // id, status, blob: answers publish, lookup, unpublish and join
	kindSpawned                   // id, status, namespace: answers kindSpawn
	kindKnow                      // another job of the family
)

// From the helper.
const (
	kindEnv       kind = iota + 65 // rank, NAME=VALUE
	kindReady                      // version of the library
	kindFailed                     // a failure, its text; the helper ends
	kindConnected                  // rank, now in MPI_Init
	kindFinalized                  // rank
	kindAborted                    // rank, code, text
	kindFence                      // id, ranks (none: the whole job), this node's blob
	kindModexNeed                  // id, rank of another node
	kindModexHave                  // id, status, blob: answers kindModexAsk
	kindNote                       // text, for the log
	kindPublish                    // id, persistence, rank, names with values
	kindLookup                     // id, whether to wait, seconds, names
	kindUnpublish                  // id, names
	kindJoin                       // id, kind, processes, this node's blob
	kindModexFar                   // id, namespace, rank of another job
	kindSpawn                      // id, rank, infos, programs
)

// failure is the reason why a helper cannot serve.
type failure uint32

const (
	failedLibrary failure = iota + 1 // libpmix is missing
	failedSymbol                     // libpmix is too old
	failedCall                       // libpmix returns an error
	failedSetup                      // keeper and helper do not understand each other
)

// Statuses of PMIx (pmix_common.h).
const (
	statusOK          = 0
	statusTimeout     = -24
	statusUnreachable = -25
	statusBadParam    = -27
	statusFull        = -29 // PMIX_ERR_OUT_OF_RESOURCE
	statusNotFound    = -46
	statusDuplicate   = -53
	statusNotLaunched = -181 // PMIX_ERR_JOB_FAILED_TO_LAUNCH

	persistFirstRead = 1
)

// Limits of a frame. A job may put 64 MiB, as with PMI.
const (
	maxPut    = 64 << 20
	maxFrame  = maxPut + 64<<10
	maxText   = 64 << 10
	maxEnv    = 1 << 10 // variables of a rank
	maxOpen   = 1 << 16 // open fences and questions
	maxFences = 1 << 12 // groups of ranks that fence
	header    = 4
)

// builder makes a frame.
type builder []byte

func newFrame(k kind) builder { return builder{0, 0, 0, 0, byte(k)} }

func (b builder) u32(v uint32) builder { return binary.BigEndian.AppendUint32(b, v) }

func (b builder) blob(v []byte) builder { return append(b.u32(uint32(len(v))), v...) }

func (b builder) text(s string) builder { return append(b.u32(uint32(len(s))), s...) }

func (b builder) done() []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-header))
	return b
}

// cut takes the first frame off b. n is 0 for an incomplete frame; ok is false for an
// invalid frame.
func cut(b []byte) (k kind, body []byte, n int, ok bool) {
	if len(b) < header {
		return 0, nil, 0, true
	}
	size := binary.BigEndian.Uint32(b)
	if size == 0 || size > maxFrame {
		return 0, nil, 0, false
	}
	if n = header + int(size); len(b) < n {
		return 0, nil, 0, true
	}
	return kind(b[header]), b[header+1 : n], n, true
}

// reader takes fields off a body; ok turns false for good at the first missing field.
type reader struct {
	b  []byte
	ok bool
}

func (r *reader) u32() uint32 {
	if !r.ok || len(r.b) < 4 {
		r.ok = false
		return 0
	}
	v := binary.BigEndian.Uint32(r.b)
	r.b = r.b[4:]
	return v
}

func (r *reader) rank() filch.Rank {
	v := int32(r.u32())
	r.ok = r.ok && v >= 0
	return filch.Rank(v)
}

// blob is a view of the body.
func (r *reader) blob() []byte {
	n := r.u32()
	if !r.ok || uint64(n) > uint64(len(r.b)) {
		r.ok = false
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) text() string {
	v := r.blob()
	if len(v) > maxText {
		r.ok = false
		return ""
	}
	return string(v)
}

func (r *reader) ranks() []filch.Rank {
	n := r.u32()
	if !r.ok || uint64(n) > uint64(len(r.b))/4 {
		r.ok = false
		return nil
	}
	list := make([]filch.Rank, n)
	for i := range list {
		list[i] = r.rank()
	}
	return list
}

// whole reports whether all fields were there and nothing is left.
func (r *reader) whole() bool { return r.ok && len(r.b) == 0 }
