package launcher

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// KindJob is the kind of the records job/ID; see [MergeJob].
const KindJob dht.Kind = 16

// jobPrefix begins the keys of jobs.
const jobPrefix = "job/"

func jobKey(id filch.JobID) dht.Key { return dht.Key(jobPrefix + id.String()) }

// orderKey is where a piece of the order of a detached job is.
func orderKey(id filch.JobID, piece int32) dht.Key {
	return dht.Key(fmt.Sprintf("order/%d/%d", id, piece))
}

// JobEntry is a job as all nodes may know it. Who may write it is its owner:
// the node that decides about the job, by incarnation, since the takeover
// number Hop. A higher hop ends the right of whoever had a lower one.
type JobEntry struct {
	Hop         int32          `json:"hop"`
	Owner       filch.NodeName `json:"owner"`
	Incarnation uint64         `json:"incarnation"`
	Seq         uint64         `json:"seq"` // of the owner's writes
	Info        JobInfo        `json:"info"`
	Resume      *JobRecord     `json:"resume,omitempty"` // what another node needs to go on with a detached job
	Orders      int32          `json:"orders,omitempty"` // pieces of its order
	Cancel      *CancelOrder   `json:"cancel,omitempty"`
	Bytes       int            `json:"-"`
}

// CancelOrder is a request to end a job that waits for an owner.
type CancelOrder struct {
	Signal int32  `json:"signal"`
	By     string `json:"by"`
}

// The first byte of an entry tells what most readers ask.
const (
	entryEnded    = 1
	entryDetached = 2
	entryDeflated = 4

	deflateAbove  = 4 << 10
	maxEntryBytes = 16 << 20 // inflated
)

// EncodeJobEntry makes the bytes of a record.
func EncodeJobEntry(e *JobEntry) ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the record of job %d: %w", e.Info.ID, err)
	}
	flags := byte(0)
	if e.Info.Code != nil {
		flags |= entryEnded
	}
	if e.Info.Detached {
		flags |= entryDetached
	}
	if len(body) <= deflateAbove {
		return append([]byte{flags}, body...), nil
	}
	var b bytes.Buffer
	b.WriteByte(flags | entryDeflated)
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// DecodeJobEntry is the inverse of [EncodeJobEntry].
func DecodeJobEntry(b []byte) (*JobEntry, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("a record of a job without a byte")
	}
	body := b[1:]
	if b[0]&entryDeflated != 0 {
		var err error
		body, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(body)), maxEntryBytes))
		if err != nil {
			return nil, fmt.Errorf("cannot inflate a record: %w", err)
		}
	}
	e := &JobEntry{Bytes: len(b)}
	if err := json.Unmarshal(body, e); err != nil {
		return nil, fmt.Errorf("cannot decode a record: %w", err)
	}
	return e, nil
}

// ended reports whether the job is over.
func (e *JobEntry) ended() bool { return e.Info.Code != nil }

// entryOver tells it from the bytes.
func entryOver(b []byte) bool { return len(b) > 0 && b[0]&entryEnded != 0 }

// supersedes reports whether e may take the place of old: the first end stays,
// else the higher hop counts; within a hop only its owner writes, and of two of
// its writes the later one counts.
func (e *JobEntry) supersedes(old *JobEntry) bool {
	switch {
	case old.ended():
		return false
	case e.Hop != old.Hop:
		return e.Hop > old.Hop
	case e.Owner != old.Owner:
		return false
	case e.Incarnation != old.Incarnation:
		return e.Incarnation > old.Incarnation
	}
	return e.Seq > old.Seq
}

func (e *JobEntry) same(old *JobEntry) bool {
	return e.Hop == old.Hop && e.Owner == old.Owner && e.Incarnation == old.Incarnation && e.Seq == old.Seq
}

// MergeJob joins what is said of a job to what is known. The reply is empty
// when delta counts now; else it is what counts instead. A delta without an
// owner only asks for a cancel.
func MergeJob(old, delta []byte) (merged, reply []byte, err error) {
	d, err := DecodeJobEntry(delta)
	if err != nil {
		return old, nil, err
	}
	if len(old) == 0 {
		if d.Owner == "" {
			return old, nil, fmt.Errorf("there is no job %d to cancel", d.Info.ID)
		}
		return delta, nil, nil
	}
	o, err := DecodeJobEntry(old)
	if err != nil {
		return delta, nil, nil // it never was of use: what is said now counts
	}
	switch {
	case d.Owner == "" && (o.ended() || o.Cancel != nil):
		return old, old, nil
	case d.Owner == "":
		o.Cancel = d.Cancel
		merged, err = EncodeJobEntry(o)
		return merged, merged, err
	case d.same(o):
		return old, nil, nil
	case !d.supersedes(o):
		return old, old, nil
	}
	if o.Cancel != nil && d.Cancel == nil && !d.ended() {
		d.Cancel = o.Cancel // of which the owner has not heard yet
		merged, err = EncodeJobEntry(d)
		return merged, merged, err
	}
	return delta, nil, nil
}
