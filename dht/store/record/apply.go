package record

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/varint"
)

// Repeated reports whether an operation has changed a record, nil for none, or may have
// changed the record, and returns the result for the repetition.
func Repeated(old *Record, o *dht.Op, kinds dht.Kinds) (res dht.Result, is bool) {
	if old == nil || o.Reads() {
		return dht.Result{}, false
	}
	a, found, forgotten := findRecent(old.recent, o.ID)
	if forgotten && !o.Merges() { // a merge can be done twice
		return dht.Result{Outcome: dht.Unknown, Kind: old.Kind, Err: fmt.Sprintf("it is not known any more whether it was carried out: %d later operations were", maxRecent)}, true
	}
	if !found {
		return dht.Result{}, false
	}
	res = dht.Result{Outcome: dht.Done, Kind: old.Kind, Version: a.version, Value: a.reply}
	if a.reply == nil && o.Merges() && !old.Gone && old.Kind == o.Kind {
		_, res.Value, _ = kinds[o.Kind](old.Value, o.Value)
	}
	return res, true
}

// Apply computes the effect on a record, nil for none, of an operation that is not
// repeated. Apply returns the record's new contents without a stamp, nil for no change.
func Apply(old *Record, o *dht.Op, kinds dht.Kinds) (next *Record, res dht.Result) {
	there := old != nil && !old.Gone
	if there && o.Kind != 0 && old.Kind != o.Kind && o.Code != dht.OpLookup && o.Code != dht.OpInsert {
		return nil, dht.Result{Outcome: dht.Conflict, Kind: old.Kind, Version: old.Version, Err: fmt.Sprintf("the record is of kind %d, not %d", old.Kind, o.Kind)}
	}
	switch o.Code {
	case dht.OpLookup:
		if !there {
			return nil, dht.Result{Outcome: dht.Absent}
		}
		return nil, old.Found(dht.Done)
	case dht.OpInsert:
		if there {
			return nil, old.Found(dht.Exists)
		}
		return &Record{Kind: kindOr(o.Kind, dht.KindRegister), Value: o.Value}, dht.Result{Outcome: dht.Done}
	case dht.OpRemove:
		switch {
		case !there:
			return nil, dht.Result{Outcome: dht.Absent}
		case o.Expect != dht.Version{} && o.Expect != old.Version:
			return nil, old.Found(dht.Mismatch)
		}
		keep := o.Keep
		if keep == 0 {
			keep = dht.KeepRemoved
		}
		return &Record{Kind: old.Kind, Gone: true, Keep: keep}, dht.Result{Outcome: dht.Done}
	case dht.OpSwap:
		switch {
		case !there && o.Expect != dht.Version{}:
			return nil, dht.Result{Outcome: dht.Absent}
		case there && o.Expect != old.Version:
			return nil, old.Found(dht.Mismatch)
		}
		kind := kindOr(o.Kind, dht.KindRegister)
		if there {
			kind = old.Kind
		}
		return &Record{Kind: kind, Value: o.Value}, dht.Result{Outcome: dht.Done}
	case dht.OpJoin:
		if !there && old != nil {
			return nil, dht.Result{Outcome: dht.Absent}
		}
	}
	return grow(old, there, o, kinds)
}

func kindOr(k, other dht.Kind) dht.Kind {
	if k == 0 {
		return other
	}
	return k
}

// Found returns the result that shows a record.
func (r *Record) Found(o dht.Outcome) dht.Result {
	return dht.Result{Outcome: o, Kind: r.Kind, Version: r.Version, Value: r.Value}
}

// grow is Apply for the operations that add to a record.
func grow(old *Record, there bool, o *dht.Op, kinds dht.Kinds) (next *Record, res dht.Result) {
	var was []byte
	if there {
		was = old.Value
	}
	if o.Code == dht.OpAppend {
		if there && old.Kind != dht.KindList {
			return nil, dht.Result{Outcome: dht.Conflict, Kind: old.Kind, Version: old.Version, Err: "the record is not a list"}
		}
		if len(was)+len(o.Value)+5 > dht.MaxValue {
			return nil, dht.Result{Outcome: dht.Full, Kind: dht.KindList, Version: old.at(), Err: fmt.Sprintf("the list has %d bytes, at most %d", len(was), dht.MaxValue)}
		}
		return &Record{Kind: dht.KindList, Value: appendElement(was, o.Value)}, dht.Result{Outcome: dht.Done}
	}
	value, reply, err := kinds[o.Kind](was, o.Value)
	switch {
	case err != nil:
		return nil, dht.Result{Outcome: dht.Conflict, Kind: o.Kind, Version: old.at(), Value: slices.Clone(reply), Err: err.Error()}
	case len(value) > dht.MaxValue || len(reply) > dht.MaxValue:
		return nil, dht.Result{Outcome: dht.Full, Kind: o.Kind, Version: old.at(), Err: fmt.Sprintf("the merged record would have %d bytes, at most %d", len(value), dht.MaxValue)}
	}
	res = dht.Result{Outcome: dht.Done, Kind: o.Kind, Value: reply}
	if there && bytes.Equal(value, was) {
		res.Version = old.Version
		return nil, res
	}
	next = &Record{Kind: o.Kind, Value: value}
	if 0 < len(reply) && len(reply) <= keptReply {
		// A retry, perhaps to another home, must receive the same reply.
		if _, again, err := kinds[o.Kind](value, o.Value); err != nil || !bytes.Equal(again, reply) {
			next.reply = reply
		}
	}
	return next, res
}

func (r *Record) at() dht.Version {
	if r == nil {
		return dht.Version{}
	}
	return r.Version
}

// appendElement adds an element to the value of a list.
func appendElement(value, e []byte) []byte {
	out := make([]byte, 0, len(value)+len(e)+4)
	return varint.AppendBytes(append(out, value...), e)
}
