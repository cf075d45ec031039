package instance

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Clients of the records themselves: each asks one operation after the other, of
// whichever launcher answers, and what all of them were told must be explained by
// one order for each key.

// Sizes of what they do in a run.
const (
	recordClients = 3
	recordKeys    = 5
	recordOps     = 40 // of each client
	recordPause   = 600 * time.Millisecond
	recordWait    = 5 * time.Second
	judgeTime     = 5 * time.Second // of porcupine for one key, by the wall clock
)

// recordClient is one of them.
type recordClient struct {
	index int
	dice  *engine.Dice
	left  int
	pause time.Duration // between its operations, at most
	seen  map[dht.Key]recordSeen
}

// recordSeen is what a client saw last of a record.
type recordSeen struct {
	version dht.Version
	text    string
}

// recordOp and recordResult are an operation and its answer as the judge has them.
// The text of a record is "=" and its value; "" means that there is none.
type recordOp struct {
	code  dht.OpCode
	value string
	want  string // OpSwap: the text that is expected
}

type recordResult struct {
	open    bool // it was not answered for good
	outcome dht.Outcome
	text    string
}

func present(value string) string { return "=" + value }

// drawRecordClients has clients use the records of a run.
func (w *World) drawRecordClients(d *engine.Dice) {
	w.addRecordClients(d, recordClients, recordOps, recordPause)
}

func (w *World) addRecordClients(d *engine.Dice, count, ops int, pause time.Duration) {
	w.history = make(map[dht.Key][]porcupine.Operation)
	for i := range count {
		c := &recordClient{index: i, dice: d, left: ops, pause: pause, seen: make(map[dht.Key]recordSeen)}
		w.At(d.Between(time.Millisecond, pause), func() { w.askRecord(c) })
	}
}

// askRecord has a client ask its next operation.
func (w *World) askRecord(c *recordClient) {
	if c.left--; c.left < 0 || w.Now() > closeUntil {
		return
	}
	h := w.someHost(c.dice)
	if h == nil {
		w.At(w.Now()+c.pause, func() { w.askRecord(c) })
		return
	}
	key := dht.Key(fmt.Sprintf("client/%d", c.dice.N(recordKeys)))
	op := dht.Op{Key: key, Kind: dht.KindRegister, Durable: true}
	in := recordOp{value: fmt.Sprintf("%d.%d", c.index, c.left)}
	switch c.dice.N(8) {
	case 0, 1, 2:
		op.Code, op.Consistent = dht.OpLookup, true
	case 3:
		op.Code, op.Value = dht.OpInsert, []byte(in.value)
	case 4:
		op.Code = dht.OpRemove
	default:
		op.Code, op.Value = dht.OpSwap, []byte(in.value)
		op.Expect, in.want = c.seen[key].version, c.seen[key].text
	}
	in.code = op.Code
	w.sendRecord(c, h, op, in)
}

// sendRecord hands an operation to a launcher. One whose launcher ends first may
// have been carried out or not, at any time.
func (w *World) sendRecord(c *recordClient, h *host, op dht.Op, in recordOp) {
	w.steps++
	call, answered, life := w.steps, false, int32(-1)
	again := func() { w.At(w.Now()+c.dice.Between(0, c.pause), func() { w.askRecord(c) }) }
	h.call(func(now time.Duration, out *launcher.Outbox) {
		life = h.Life()
		h.node.StoreDo(now, []dht.Op{op}, recordWait, func(rs []dht.Result) {
			if answered {
				return
			}
			answered = true
			w.recordAnswered(c, op.Key, porcupine.Operation{ClientId: c.index, Input: in, Call: call}, &rs[0])
			again()
		}, out)
	})
	w.At(w.Now()+2*recordWait, func() {
		if !answered {
			answered = true
			w.checkAnswers(h, life, op.Key)
			w.past(op.Key, porcupine.Operation{ClientId: c.index, Input: in, Call: call, Output: recordResult{open: true}, Return: math.MaxInt64})
			again()
		}
	})
}

// checkAnswers: a launcher that was asked long ago, and still runs, has answered.
func (w *World) checkAnswers(h *host, life int32, k dht.Key) {
	if h.Life() == life && h.PausedUntil()+recordWait < w.Now() {
		w.Fail("no-answer", "%s did not answer what it was asked of %s %v ago", h.Name, k, 2*recordWait)
	}
}

func (w *World) past(k dht.Key, o porcupine.Operation) { w.history[k] = append(w.history[k], o) }

// recordAnswered writes down an answer.
func (w *World) recordAnswered(c *recordClient, k dht.Key, o porcupine.Operation, r *dht.Result) {
	w.steps++
	o.Return = w.steps
	out := recordResult{outcome: r.Outcome}
	switch r.Outcome {
	case dht.Unavailable:
		return // not carried out
	case dht.Unknown:
		out.open, o.Return = true, math.MaxInt64
	case dht.Done, dht.Exists, dht.Absent, dht.Mismatch:
		in := o.Input.(recordOp)
		switch {
		case in.code == dht.OpLookup && r.Outcome == dht.Done, r.Outcome == dht.Exists, r.Outcome == dht.Mismatch && r.Version != dht.Version{}:
			out.text = present(string(r.Value))
		case r.Outcome == dht.Done && in.code != dht.OpRemove:
			out.text = present(in.value)
		}
		c.seen[k] = recordSeen{r.Version, out.text}
		if out.text == "" {
			c.seen[k] = recordSeen{}
		}
	default:
		w.Fail("record", "an operation on %s was answered with %s: %s", k, r.Outcome, r.Err)
	}
	o.Output = out
	w.past(k, o)
}

// step is what an operation makes of a record, and whether its answer is one that
// the record allows.
func (in recordOp) step(text string, out recordResult) (bool, string) {
	is := func(o dht.Outcome) bool { return out.open || out.outcome == o }
	shows := out.open || out.text == text
	switch in.code {
	case dht.OpInsert:
		if text == "" {
			return is(dht.Done), present(in.value)
		}
		return is(dht.Exists) && shows, text
	case dht.OpRemove:
		if text == "" {
			return is(dht.Absent), ""
		}
		return is(dht.Done), ""
	case dht.OpSwap:
		if text == in.want {
			return is(dht.Done), present(in.value)
		}
		return is(dht.Mismatch) && shows || text == "" && is(dht.Absent), text
	}
	if text == "" {
		return is(dht.Absent), ""
	}
	return is(dht.Done) && shows, text
}

var recordModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		ok, next := input.(recordOp).step(state.(string), output.(recordResult))
		return ok, next
	},
}

// checkRecords holds what the clients were told against one order for each key.
func (w *World) checkRecords() {
	for i := range recordKeys {
		k := dht.Key(fmt.Sprintf("client/%d", i))
		if porcupine.CheckOperationsTimeout(recordModel, w.history[k], judgeTime) == porcupine.Illegal {
			w.Fail("illegal", "no order explains what %d operations on %s were told", len(w.history[k]), k)
			return
		}
	}
}
