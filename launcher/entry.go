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

// KindTasks is where the kinds of mtc's records begin among the store's.
const KindTasks dht.Kind = 64

// JobPrefix begins the keys of jobs.
const JobPrefix = "job/"

func JobKey(id filch.JobID) dht.Key { return dht.Key(JobPrefix + id.String()) }

// OrderKey returns the key of a piece of a detached job's order.
func OrderKey(id filch.JobID, piece int32) dht.Key {
	return dht.Key(fmt.Sprintf("order/%d/%d", id, piece))
}

// JobEntry is the record of a job in the store, readable on all nodes. Only the owner
// writes the entry: the node that decides about the job, with its incarnation, since the
// takeover number Hop. A higher Hop ends the rights of all owners with a lower Hop.
// Resume is the state that another node needs to continue a detached job.
type JobEntry struct {
	Hop         int32          `json:"hop"`
	Owner       filch.NodeName `json:"owner"`
	Incarnation uint64         `json:"incarnation"`
	Seq         uint64         `json:"seq"` // of the owner's writes
	Info        JobInfo        `json:"info"`
	Resume      *JobRecord     `json:"resume,omitempty"` // for the next owner of the job
	Orders      int32          `json:"orders,omitempty"` // pieces of the job's order
	Cancel      *CancelOrder   `json:"cancel,omitempty"`
	Bytes       int            `json:"-"`
}

// CancelOrder is a request to end a job that waits for an owner.
type CancelOrder struct {
	Signal int32  `json:"signal"`
	By     string `json:"by"`
}

// The first byte of an entry answers the questions of most readers.
const (
	entryEnded    = 1
	entryDetached = 2
	entryDeflated = 4

	deflateAbove  = 4 << 10
	maxEntryBytes = 16 << 20 // inflated
)

// EncodeJobEntry returns the bytes of a record.
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

// Ended reports whether the job is over.
func (e *JobEntry) Ended() bool { return e.Info.Code != nil }

// EntryOver reports whether the job of an encoded entry is over.
func EntryOver(b []byte) bool { return len(b) > 0 && b[0]&entryEnded != 0 }

// supersedes reports whether e may replace old: the first end stays, else the higher hop
// wins. Within a hop only the owner writes, and the later of two writes wins.
func (e *JobEntry) supersedes(old *JobEntry) bool {
	switch {
	case old.Ended():
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

// Same reports whether e and old come from the same write of the same owner.
func (e *JobEntry) Same(old *JobEntry) bool {
	return e.Hop == old.Hop && e.Owner == old.Owner && e.Incarnation == old.Incarnation && e.Seq == old.Seq
}

// MergeJob merges the entry delta into the stored entry old. The reply is empty when
// delta counts now; otherwise the reply is the entry that counts instead. A delta
// without an owner only asks for a cancel.
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
		return delta, nil, nil // old is unusable: delta counts
	}
	switch {
	case d.Owner == "" && (o.Ended() || o.Cancel != nil):
		return old, old, nil
	case d.Owner == "":
		o.Cancel = d.Cancel
		merged, err = EncodeJobEntry(o)
		return merged, merged, err
	case d.Same(o):
		return old, nil, nil
	case !d.supersedes(o):
		return old, old, nil
	}
	if o.Cancel != nil && d.Cancel == nil && !d.Ended() {
		d.Cancel = o.Cancel // the owner has not seen the cancel yet
		merged, err = EncodeJobEntry(d)
		return merged, merged, err
	}
	return delta, nil, nil
}

// Told returns the job as described by its record.
func (e *JobEntry) Told() JobInfo {
	i := e.Info
	i.Hop, i.Recorded = e.Hop, true
	if i.Nodes == nil {
		i.Nodes = []filch.NodeName{}
	}
	return i
}
