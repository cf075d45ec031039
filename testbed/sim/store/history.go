package store

import (
	"fmt"
	"math"
	"time"

	"github.com/filch-hpc/filch/dht"
)

// entry is one operation of a client, as the checkers remember it: what it
// asked, when, and what it was told in the end. However often it was repeated
// under its identity, it is one.
type entry struct {
	client int
	op     dht.Op
	kind   dht.Kind // of the key, whatever op.Kind says
	want   string   // OpSwap, OpRemove: the contents that Expect stands for
	call   int64    // steps of the history, not times: two never coincide
	back   int64
	at     time.Duration
	asked  *node  // the last node that was asked
	view   uint64 // the epoch of the key's shard that the asked node knew
	newest uint64 // the newest epoch of it that anybody knew when it was answered: that in which it was done, or a later one
	lossy  int    // how often the key's shard had been lost when it began
	result dht.Result
	got    string // the contents in the result
	open   bool   // never answered: it may happen at any time after call
	void   bool   // not carried out, as the store says
	doubt  bool   // an earlier try was not answered
}

// never is when an open operation returns.
const never = math.MaxInt64

// history is all that the clients did.
type history struct {
	step  int64
	byKey map[dht.Key][]*entry
	keys  []dht.Key // in the order of their first use
	seen  map[versionOf]string
}

type versionOf struct {
	key     dht.Key
	version dht.Version
}

func (h *history) init() {
	h.byKey = make(map[dht.Key][]*entry)
	h.seen = make(map[versionOf]string)
}

func (h *history) next() int64 { h.step++; return h.step }

func (h *history) begin(e *entry) {
	e.call, e.back, e.open = h.next(), never, true
	if h.byKey[e.op.Key] == nil {
		h.keys = append(h.keys, e.op.Key)
	}
	h.byKey[e.op.Key] = append(h.byKey[e.op.Key], e)
}

// end writes down an answer. One version of a record has one content.
func (w *World) end(e *entry, r dht.Result) {
	h := &w.past
	e.back, e.open, e.result = h.next(), false, r
	e.newest, _ = w.config(e.op.Key)
	e.result.Value = nil
	w.Mix(uint64(r.Outcome)<<56 ^ r.Version.Epoch<<32 ^ r.Version.Seq)
	switch r.Outcome {
	case dht.Unknown:
		e.open, e.back = true, never
		w.stats.Unknown++
		return
	case dht.Unavailable:
		if e.doubt {
			e.open, e.back = true, never
			w.stats.Unknown++
		} else {
			e.void = true
			w.stats.Done++
		}
		return
	case dht.Done, dht.Exists, dht.Absent, dht.Mismatch:
	default:
		w.Fail("outcome", "%s was answered with %v (%s)", describe(e), r.Outcome, r.Err)
		return
	}
	w.stats.Done++
	shows := e.op.Code == dht.OpLookup || r.Outcome == dht.Exists || r.Outcome == dht.Mismatch
	switch {
	case r.Outcome == dht.Absent:
	case shows && (r.Outcome != dht.Mismatch || r.Version != dht.Version{}):
		text, err := canonical(e.kind, r.Value)
		if err != nil {
			w.Fail("contents", "%s: %v", describe(e), err)
			return
		}
		e.got = text
		w.saw(e, r.Version, text)
	case e.op.Code == dht.OpInsert || e.op.Code == dht.OpSwap:
		w.saw(e, r.Version, present(string(e.op.Value)))
	}
}

// saw holds what is shown as the contents of a version against what was shown
// before.
func (w *World) saw(e *entry, v dht.Version, text string) {
	if v == (dht.Version{}) {
		w.Fail("version", "%s was answered with a record without a version", describe(e))
		return
	}
	k := versionOf{e.op.Key, v}
	if old, ok := w.past.seen[k]; ok && old != text {
		w.Fail("version", "version %v of %s was %q and is %q", v, e.op.Key, old, text)
	}
	w.past.seen[k] = text
}

var codeNames = [...]string{"?", "insert", "lookup", "remove", "append", "swap", "merge", "scan"}

// describe prints an operation and its answer on one line.
func describe(e *entry) string {
	text := fmt.Sprintf("client %d: %s %s", e.client, codeNames[e.op.Code], e.op.Key)
	switch e.op.Code {
	case dht.OpInsert, dht.OpAppend, dht.OpSwap, dht.OpMerge:
		text += fmt.Sprintf(" %q", e.op.Value)
	}
	if e.want != "" {
		text += fmt.Sprintf(" of %v %q", e.op.Expect, e.want)
	}
	if e.op.Code == dht.OpLookup && !e.op.Consistent {
		text += " (plain)"
	}
	if e.op.Durable {
		text += " (durable)"
	}
	text += fmt.Sprintf(" id %s.%d.%d [%d", e.op.ID.Node, e.op.ID.Incarnation, e.op.ID.Seq, e.call)
	switch {
	case e.open:
		return text + ", unknown]"
	case e.void:
		return text + fmt.Sprintf(", %d] not carried out", e.back)
	}
	return text + fmt.Sprintf(", %d] %v %v %q", e.back, e.result.Outcome, e.result.Version, e.got)
}
