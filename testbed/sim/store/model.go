package store

import (
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/filch-hpc/filch/dht"
)

// The model of one key: its contents as a text, "" if there is no record. It
// is written against the words of the interface, not with the code of dht.

// present is the text of a record with the given contents.
func present(contents string) string { return "=" + contents }

// canonical is the text of a record as the store holds it.
func canonical(k dht.Kind, value []byte) (string, error) {
	if k != dht.KindList {
		return present(string(value)), nil
	}
	items, err := dht.DecodeList(value)
	if err != nil {
		return "", err
	}
	texts := make([]string, len(items))
	for i, it := range items {
		texts[i] = string(it)
	}
	return present(strings.Join(texts, ",")), nil
}

// kindTable is a kind of this simulator's own: cells by name, each "name=value",
// joined by commas. A delta is cells too.
const kindTable = dht.KindFree

// mergeTable is its rule. It is no part of what ships, so it is that of the model.
func mergeTable(old, delta []byte) (value, reply []byte, err error) {
	value = []byte(merged(present(string(old)), present(string(delta)))[1:])
	return value, value, nil
}

// parts takes a canonical text apart.
func parts(text string) []string {
	if len(text) <= 1 {
		return nil
	}
	return strings.Split(text[1:], ",")
}

// appended is the text after an append.
func appended(text, item string) string {
	if len(text) <= 1 {
		return present(item)
	}
	return text + "," + item
}

// merged is the text of a table after a merge of cells, given as a text too.
// Cells whose names begin with "max" keep the greatest, others the first.
func merged(text, delta string) string {
	cells := parts(text)
	for _, d := range parts(delta) {
		name, value, _ := strings.Cut(d, "=")
		i := slices.IndexFunc(cells, func(c string) bool { n, _, _ := strings.Cut(c, "="); return n == name })
		if i < 0 {
			cells = append(slices.Clone(cells), d)
			continue
		}
		old := cells[i][len(name)+1:]
		if strings.HasPrefix(name, "max") && (len(value) > len(old) || len(value) == len(old) && value > old) {
			cells = slices.Clone(cells)
			cells[i] = d
		}
	}
	slices.Sort(cells)
	return present(strings.Join(cells, ","))
}

// next is what an operation makes of a record, and whether its answer is one
// that the record allows. An open operation has no answer.
func (e *entry) next(text string) (bool, string) {
	told := !e.open
	is := func(o dht.Outcome) bool { return !told || e.result.Outcome == o }
	shows := func(t string) bool { return !told || e.got == t }
	value := string(e.op.Value)
	switch e.op.Code {
	case dht.OpInsert:
		if text == "" {
			return is(dht.Done), present(value)
		}
		return is(dht.Exists) && shows(text), text
	case dht.OpLookup:
		if text == "" {
			return is(dht.Absent), text
		}
		return is(dht.Done) && shows(text), text
	case dht.OpRemove:
		switch {
		case text == "":
			return is(dht.Absent), text
		case e.want != "" && e.want != text:
			return is(dht.Mismatch) && shows(text), text
		}
		return is(dht.Done), ""
	case dht.OpAppend:
		return is(dht.Done), appended(text, value)
	case dht.OpSwap:
		if e.want != text {
			return is(dht.Mismatch) && shows(text) || text == "" && is(dht.Absent), text
		}
		return is(dht.Done), present(value)
	case dht.OpMerge:
		return is(dht.Done), merged(text, e.want)
	}
	return false, text
}

var model = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		ok, next := input.(*entry).next(state.(string))
		return ok, next
	},
	Equal: func(a, b any) bool { return a.(string) == b.(string) },
}

// judgeFor is how long one key's history is thought about at most.
const judgeFor = 10 * time.Second

// linearizable asks porcupine about the history of one key. At first without
// the open changes of which no answer shows a trace: as they may never have
// happened, what is fine without them is fine. But an unseen change may be what
// a removal removed, so that they are asked for if it is not.
func linearizable(entries []*entry) porcupine.CheckResult {
	some, all := relevant(entries)
	result := porcupine.CheckOperationsTimeout(model, some, judgeFor)
	if result != porcupine.Ok && len(all) > len(some) {
		result = porcupine.CheckOperationsTimeout(model, all, judgeFor)
	}
	return result
}

// relevant leaves out plain lookups, open lookups and what was not carried
// out; and, in some, open changes without a trace.
func relevant(entries []*entry) (some, all []porcupine.Operation) {
	var shown strings.Builder
	for _, e := range entries {
		shown.WriteString(e.got + "\n")
	}
	text := shown.String()
	for _, e := range entries {
		if e.void || e.op.Code == dht.OpLookup && (e.open || !e.op.Consistent) {
			continue
		}
		op := porcupine.Operation{ClientId: e.client, Input: e, Call: e.call, Return: e.back}
		all = append(all, op)
		if !e.open || e.traced(text) {
			some = append(some, op)
		}
	}
	return some, all
}

// traced reports whether an open operation may be seen in what was shown.
func (e *entry) traced(text string) bool {
	switch e.op.Code {
	case dht.OpRemove:
		return true
	case dht.OpMerge:
		return slices.ContainsFunc(parts(e.want), func(cell string) bool { return strings.Contains(text, cell) })
	}
	return strings.Contains(text, string(e.op.Value))
}
