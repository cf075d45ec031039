package dht

import (
	"bytes"
	"fmt"
	"slices"
)

// check refuses operations that make no sense before they go anywhere.
func (o *Op) check(kinds Kinds) string {
	switch {
	case o.Code == 0 || o.Code >= opCodes:
		return fmt.Sprintf("operation %d is not known", o.Code)
	case len(o.Key) > MaxKey:
		return fmt.Sprintf("the key has %d bytes, at most %d", len(o.Key), MaxKey)
	case o.Key == "":
		return "the key is empty"
	case len(o.Value) > MaxValue:
		return fmt.Sprintf("the value has %d bytes, at most %d", len(o.Value), MaxValue)
	case o.merges() && kinds[o.Kind] == nil:
		return fmt.Sprintf("records of kind %d have no rule to merge by", o.Kind)
	case o.ID.Seq == 0 && o.ID != OpID{} || len(o.ID.Node) > maxNodeName:
		return "the operation's identity is malformed"
	case o.Keep < 0:
		return "a negative time to keep"
	}
	return ""
}

func (o *Op) reads() bool { return o.Code == OpLookup }

func (o *Op) merges() bool { return o.Code == OpMerge || o.Code == OpJoin }

// apply works out what an operation does to a record, nil for none. It
// returns the record's new contents without a stamp, nil for no change.
func apply(old *record, o *Op, kinds Kinds) (next *record, res Result) {
	if old != nil && !o.reads() && !mutantParentCounter {
		a, found, forgotten := findRecent(old.recent, o.ID)
		if forgotten && !o.merges() { // a merge can be done twice
			return nil, Result{Outcome: Unknown, Kind: old.kind, Err: fmt.Sprintf("it is not known any more whether it was carried out: %d later operations were", maxRecent)}
		}
		if found {
			res = Result{Outcome: Done, Kind: old.kind, Version: a.version, Value: a.reply}
			if a.reply == nil && o.merges() && !old.gone && old.kind == o.Kind {
				_, res.Value, _ = kinds[o.Kind](old.value, o.Value)
			}
			return nil, res
		}
	}
	there := old != nil && !old.gone
	if there && o.Kind != 0 && old.kind != o.Kind && o.Code != OpLookup && o.Code != OpInsert {
		return nil, Result{Outcome: Conflict, Kind: old.kind, Version: old.version, Err: fmt.Sprintf("the record is of kind %d, not %d", old.kind, o.Kind)}
	}
	switch o.Code {
	case OpLookup:
		if !there {
			return nil, Result{Outcome: Absent}
		}
		return nil, old.found(Done)
	case OpInsert:
		if there {
			return nil, old.found(Exists)
		}
		return &record{kind: kindOr(o.Kind, KindRegister), value: o.Value}, Result{Outcome: Done}
	case OpRemove:
		switch {
		case !there:
			return nil, Result{Outcome: Absent}
		case o.Expect != Version{} && o.Expect != old.version:
			return nil, old.found(Mismatch)
		}
		keep := o.Keep
		if keep == 0 {
			keep = KeepRemoved
		}
		return &record{kind: old.kind, gone: true, keep: keep}, Result{Outcome: Done}
	case OpSwap:
		switch {
		case !there && o.Expect != Version{}:
			return nil, Result{Outcome: Absent}
		case there && o.Expect != old.version:
			return nil, old.found(Mismatch)
		}
		kind := kindOr(o.Kind, KindRegister)
		if there {
			kind = old.kind
		}
		return &record{kind: kind, value: o.Value}, Result{Outcome: Done}
	case OpJoin:
		if !there && old != nil {
			return nil, Result{Outcome: Absent}
		}
	}
	return grow(old, there, o, kinds)
}

func kindOr(k, other Kind) Kind {
	if k == 0 {
		return other
	}
	return k
}

// found is the answer that shows a record.
func (r *record) found(o Outcome) Result {
	return Result{Outcome: o, Kind: r.kind, Version: r.version, Value: r.value}
}

// grow is apply for the operations that add to a record.
func grow(old *record, there bool, o *Op, kinds Kinds) (next *record, res Result) {
	var was []byte
	if there {
		was = old.value
	}
	if o.Code == OpAppend {
		if there && old.kind != KindList {
			return nil, Result{Outcome: Conflict, Kind: old.kind, Version: old.version, Err: "the record is not a list"}
		}
		if len(was)+len(o.Value)+5 > MaxValue {
			return nil, Result{Outcome: Full, Kind: KindList, Version: old.at(), Err: fmt.Sprintf("the list has %d bytes, at most %d", len(was), MaxValue)}
		}
		return &record{kind: KindList, value: appendElement(was, o.Value)}, Result{Outcome: Done}
	}
	value, reply, err := kinds[o.Kind](was, o.Value)
	switch {
	case err != nil:
		return nil, Result{Outcome: Conflict, Kind: o.Kind, Version: old.at(), Value: slices.Clone(reply), Err: err.Error()}
	case len(value) > MaxValue || len(reply) > MaxValue:
		return nil, Result{Outcome: Full, Kind: o.Kind, Version: old.at(), Err: fmt.Sprintf("the merged record would have %d bytes, at most %d", len(value), MaxValue)}
	}
	res = Result{Outcome: Done, Kind: o.Kind, Value: reply}
	if there && bytes.Equal(value, was) {
		res.Version = old.version
		return nil, res
	}
	next = &record{kind: o.Kind, value: value}
	if 0 < len(reply) && len(reply) <= keptReply {
		// Asked again, perhaps of another home, it is to have this answer.
		if _, again, err := kinds[o.Kind](value, o.Value); err != nil || !bytes.Equal(again, reply) {
			next.reply = reply
		}
	}
	return next, res
}

func (r *record) at() Version {
	if r == nil {
		return Version{}
	}
	return r.version
}
