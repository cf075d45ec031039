package record

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

var a1, b1, c1 = Owner{"a", 1}, Owner{"b", 1}, Owner{"c", 1}

// block does operations on a record, one delta each, twice: the second time
// nothing may change.
func block(t *testing.T, old []byte, ops ...BlockOp) ([]byte, []Verdict) {
	t.Helper()
	var all []Verdict
	for _, op := range ops {
		delta := EncodeBlockOps([]BlockOp{op}, true)
		val, reply, err := mergeBlock(old, delta)
		if err != nil {
			t.Fatal(err)
		}
		p, err := DecodeBlockReply(reply)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Verdicts...)
		again, reply, err := mergeBlock(val, delta)
		if err != nil || p.Verdicts[0] == VerdictDone && !bytes.Equal(again, val) {
			t.Errorf("said again, %+v changes the record (%v)", op, err)
		}
		if q, err := DecodeBlockReply(reply); err != nil || op.Take != 0 && !bytes.Equal(q.Taken, p.Taken) {
			t.Errorf("said again, %+v took %v, the first time %v (%v)", op, q.Taken, p.Taken, err)
		}
		old = val
	}
	return old, all
}

func endOp(off uint8, s filch.State, a filch.Attempt, by Owner) BlockOp {
	return BlockOp{Kind: BlockEnd, Off: off, Task: Task{State: s, Attempt: a, Owner: by, Began: int64(a)}}
}

func startOp(off uint8, a filch.Attempt, hop uint32, by Owner, once bool) BlockOp {
	return BlockOp{Kind: BlockStart, Off: off, Once: once, Task: Task{Attempt: a, Hop: hop, Owner: by}}
}

func TestFirstEndWins(t *testing.T) {
	v, got := block(t, nil, endOp(9, filch.OK, 1, a1), endOp(9, filch.Failed, 2, b1))
	b, err := DecodeBlock(v)
	if err != nil {
		t.Fatal(err)
	}
	if k := b.Find(9); k.State != filch.OK || k.By != a1 || k.Extra != 1 || got[1] != VerdictEnded {
		t.Errorf("recorded %+v after verdicts %v, want the first end and one extra", k, got)
	}
}

// The end that counts says what its task used; the sums go from block to zone to job.
func TestUsageGoesWithTheFirstEnd(t *testing.T) {
	used := func(sec int, mib int64) filch.Usage {
		return filch.Usage{User: time.Duration(sec) * time.Second, PeakBytes: mib << 20}
	}
	with := func(p BlockOp, u filch.Usage) BlockOp {
		p.Usage = &u
		return p
	}
	v, _ := block(t, nil, with(endOp(9, filch.OK, 1, a1), used(5, 7)), with(endOp(9, filch.OK, 2, b1), used(99, 99)),
		with(endOp(11, filch.Failed, 1, b1), used(2, 3)), endOp(12, filch.OK, 1, a1))
	b, err := DecodeBlock(v)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Find(9).Usage; got == nil || *got != used(5, 7) {
		t.Errorf("task 9 used %+v, want %+v", got, used(5, 7))
	}
	tally := b.Tally()
	if want := (Tally{OK: 2, Failed: 1, Usage: used(7, 7)}); tally != want {
		t.Errorf("the block is %+v, want %+v", tally, want)
	}
	z, _, err := mergeZone(nil, EncodeZoneOps([]ZoneOp{
		{Kind: ZoneBlockTally, Tally: BlockTally{Block: 0, Tally: tally}}, {Kind: ZoneBlockTally, Tally: BlockTally{Block: 5, Tally: tally}},
	}, false))
	if err != nil {
		t.Fatal(err)
	}
	zone, err := DecodeZone(z)
	if err != nil || zone.Tally() != (Tally{OK: 4, Failed: 2, Usage: used(14, 7)}) {
		t.Fatalf("the zone is %+v, %v", zone, err)
	}
	j := Job{Total: 6, Closed: true}
	old, _, err := mergeJob(j.Encode(), EncodeJobOp(JobOp{Kind: JobZoneTally, Tally: ZoneTally{Tally: zone.Tally()}, At: 1}))
	if err != nil {
		t.Fatal(err)
	}
	if job, err := DecodeJob(old); err != nil || job.Tally().Usage != used(14, 7) || !job.Finished() {
		t.Errorf("the job is %+v, %v, want the usage of the zone", job, err)
	}
}

func TestStartIsCommittedOnce(t *testing.T) {
	_, got := block(t, nil, startOp(1, 1, 0, a1, true), startOp(1, 1, 1, b1, true), startOp(1, 2, 0, a1, true))
	if got[0] != VerdictDone || got[1] != VerdictOther || got[2] != VerdictOther {
		t.Errorf("verdicts %v: a task that runs once was started again", got)
	}
	_, got = block(t, nil, startOp(1, 2, 0, a1, false), startOp(1, 2, 0, b1, false), startOp(1, 1, 5, a1, false), startOp(1, 3, 0, b1, false), startOp(1, 3, 0, a1, false))
	if want := []Verdict{VerdictDone, VerdictOther, VerdictOther, VerdictOther, VerdictDone}; !slices.Equal(got, want) {
		t.Errorf("verdicts %v, want %v: one start of each attempt, none of an older one, and none by another node", got, want)
	}
}

func TestMoveNeedsThisAttemptAndHop(t *testing.T) {
	move := func(a filch.Attempt, hop uint32, from, to Owner) BlockOp {
		return BlockOp{Kind: BlockMove, Off: 3, From: from, Task: Task{Attempt: a, Hop: hop, Owner: to}}
	}
	_, got := block(t, nil, move(1, 0, a1, b1), move(1, 0, a1, c1), move(1, 1, b1, c1), startOp(3, 1, 2, c1, false), move(1, 2, c1, a1))
	want := []Verdict{VerdictDone, VerdictOther, VerdictDone, VerdictDone, VerdictOther}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("verdicts %v, want %v", got, want)
			break
		}
	}
}

func TestTakeCountsWhatWasStarted(t *testing.T) {
	v, _ := block(t, nil, startOp(1, 2, 0, a1, false), BlockOp{Kind: BlockMove, Off: 2, From: b1, Task: Task{Attempt: 1, Owner: a1}})
	take := BlockOp{Kind: BlockTakeImplicit, Off: 0, To: 3, From: a1, Most: 3, Task: Task{Owner: c1, Take: 7}}
	v, _ = block(t, v, take)
	b, _ := DecodeBlock(v)
	for off, want := range []Task{
		{Attempt: 1, Hop: lostHops, Owner: c1, Maybe: true, Take: 7, Earlier: []Owner{a1}},
		{Attempt: 3, Owner: c1, Crashes: 1, Take: 7, Earlier: []Owner{a1}},
		{Attempt: 1, Hop: 1 + lostHops, Owner: c1, Take: 7},
		{Attempt: 1, Hop: lostHops, Owner: c1, Maybe: true, Take: 7, Earlier: []Owner{a1}},
	} {
		if got := b.Find(uint8(off)); !reflect.DeepEqual(*got, want) {
			t.Errorf("task %d: %+v, want %+v", off, *got, want)
		}
	}
	// Its dead owner, which lives after all, tries it again; its new one has it.
	v, got := block(t, v, startOp(0, 2, 0, a1, false), startOp(0, 1, lostHops, c1, false), startOp(0, 2, 0, a1, false))
	if want := []Verdict{VerdictOther, VerdictDone, VerdictOther}; !slices.Equal(got, want) {
		t.Errorf("verdicts %v, want %v", got, want)
	}
	take = BlockOp{Kind: BlockTake, To: 3, From: c1, Most: 1, Task: Task{Owner: b1, Take: 8}}
	v, _ = block(t, v, take)
	b, _ = DecodeBlock(v)
	if got, want := *b.Find(0), (Task{State: filch.Lost, Code: filch.ExitNodeLost, Attempt: 1, Owner: b1, Crashes: 1, Maybe: true, By: c1, Hop: lostHops, Take: 8, Earlier: []Owner{a1, c1}}); !reflect.DeepEqual(got, want) {
		t.Errorf("after a committed start that died: %+v, want %+v", got, want)
	}
}

// The nodes of all starts stand in the record, so that a reader of output knows the nodes
// that may keep some.
func TestRecordKnowsTheNodesOfAllStarts(t *testing.T) {
	move := func(off uint8, a filch.Attempt, from, to Owner) BlockOp {
		return BlockOp{Kind: BlockMove, Off: off, From: from, Task: Task{Attempt: a, Owner: to}}
	}
	cancelled := BlockOp{Kind: BlockEnd, Off: 5, Task: Task{State: filch.Cancelled, Attempt: 1, Owner: a1}}
	v, _ := block(t, nil,
		endOp(0, filch.OK, 1, a1),
		move(1, 1, a1, b1), endOp(1, filch.OK, 1, b1), // moved before the first start
		move(2, 2, a1, b1), startOp(2, 2, 1, b1, false), move(2, 3, b1, c1), startOp(2, 3, 2, c1, false), endOp(2, filch.Failed, 3, c1),
		startOp(3, 2, 0, a1, false), BlockOp{Kind: BlockTake, Off: 3, To: 3, From: a1, Most: 3, Task: Task{Owner: b1, Take: 7}},
		startOp(4, 2, 0, a1, false),
		cancelled,
	)
	b, err := DecodeBlock(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Owner{b1, c1} { // ends after all, of nodes that were called dead
		op := endOp(4, filch.OK, 1, o)
		b.apply(&op, nil)
	}
	for off, want := range [][]Owner{{a1}, {b1}, {a1, b1, c1}, {a1}, {a1, b1, c1}, {}} {
		got, all := b.Find(uint8(off)).RanOn()
		slices.SortFunc(got, func(x, y Owner) int { return strings.Compare(x.String(), y.String()) })
		if got = slices.Compact(got); !slices.Equal(got, want) || !all {
			t.Errorf("task %d ran on %v, all %v, want %v, true", off, got, all, want)
		}
	}
	last := &Task{}
	for i := range earlierMax + 1 {
		last.startedBy(Owner{"n", uint64(i + 1)})
	}
	if got, all := last.RanOn(); len(got) != earlierMax || all {
		t.Errorf("a task with %d earlier nodes has %d, all %v, want %d, false", earlierMax+1, len(got), all, earlierMax)
	}
}

func TestTallyOnlyGrows(t *testing.T) {
	tell := func(n int32) []byte {
		return EncodeZoneOps([]ZoneOp{{Kind: ZoneBlockTally, Tally: BlockTally{3, Tally{OK: n}}}}, false)
	}
	var v []byte
	for _, n := range []int32{5, 200, 7} {
		v, _, _ = mergeZone(v, tell(n))
	}
	if z, err := DecodeZone(v); err != nil || z.Tally().OK != 200 {
		t.Errorf("after 5, 200 and a late 7 the zone counts %+v (%v)", z.Tally(), err)
	}
	j := (&Job{Ticket: filch.Ticket{Job: 1}, Total: 1000}).Encode()
	for _, n := range []int32{5, 200, 7} {
		j, _, _ = mergeJob(j, EncodeJobOp(JobOp{Kind: JobZoneTally, Tally: ZoneTally{0, Tally{OK: n}}}))
	}
	if rec, err := DecodeJob(j); err != nil || rec.Tally().OK != 200 {
		t.Errorf("after 5, 200 and a late 7 the job counts %+v (%v)", rec.Tally(), err)
	}
}

func TestKeysReadBack(t *testing.T) {
	for key, want := range map[string]Key{
		KeyJob(7): {Job: 7}, KeySpec(7): {Job: 7, What: 's'}, KeyCap(12): {Job: 12, What: 'k'},
		KeyZone(1<<31-1, 3): {Job: 1<<31 - 1, What: 'z', Number: 3}, KeyBlock(1, 99): {Job: 1, What: 'b', Number: 99}, KeyPayload(1, 0): {Job: 1, What: 'p'},
		KeyLicense("license/a"): {What: 'k', License: "license/a"},
	} {
		if got, ok := ParseKey(key); !ok || got != want {
			t.Errorf("%s reads as %+v, %v", key, got, ok)
		}
	}
	for _, key := range []string{"", "j/", "j/x", "j/1/", "j/1/b", "j/1/b/", "j/1/b/x", "j/1/b/-1", "j/99999999999", "x/1", "j/1/s/2", "j/1/k/a", "j/0/k/"} {
		if p, ok := ParseKey(key); ok {
			t.Errorf("%q reads as %+v", key, p)
		}
	}
}

// A node that looks through its records asks a zone for its tally once more. When
// the job was dropped meanwhile, that makes no new zone: nobody would remove it.
func TestATallyToldAgainMakesNoZone(t *testing.T) {
	again := EncodeZoneOps(nil, false)
	if val, _, err := mergeZone(nil, again); err == nil {
		t.Errorf("the tally of a zone that was removed made the record %v", val)
	}
	zone, _, err := mergeZone(nil, EncodeZoneOps([]ZoneOp{{Kind: ZoneVoid, Lo: 0, Hi: 8, Owner: a1, Void: filch.Cancelled}}, false))
	if err != nil {
		t.Fatal(err)
	}
	_, reply, err := mergeZone(zone, again)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := DecodeZoneReply(reply); err != nil || p.Tally.Cancelled != 8 {
		t.Errorf("a zone told %+v, %v; want 8 cancelled", p.Tally, err)
	}
}

// A range may come back to a node that was called dead and lives: the node that had
// it meanwhile began a part. What the first owner still has in its queue from before
// says nothing about that part, so it cannot end it without a start: its tasks would
// be counted here and in their blocks.
func TestARangeThatCameBackIsNotCancelledByItsOldHop(t *testing.T) {
	var zone []byte
	var reply zoneReply
	for _, op := range []ZoneOp{
		{Kind: ZoneFront, Lo: 0, Hi: 66, Front: 8, Owner: a1},
		{Kind: ZoneLose, From: a1, Owner: b1},
		{Kind: ZoneFront, Lo: 0, Hi: 66, Front: 40, Hop: lostHops, Owner: b1},
		{Kind: ZoneLose, From: b1, Owner: a1},
		{Kind: ZoneVoid, Lo: 8, Hi: 66, Owner: a1, Void: filch.Cancelled},
		{Kind: ZoneVoid, Lo: 40, Hi: 66, Hop: 2 * lostHops, Owner: a1, Void: filch.Cancelled},
	} {
		val, answer, err := mergeZone(zone, EncodeZoneOps([]ZoneOp{op}, false))
		if err == nil {
			zone = val
			reply, err = DecodeZoneReply(answer)
		}
		if err != nil {
			t.Fatalf("%+v: %v", op, err)
		}
	}
	if reply.Tally != (Tally{Cancelled: 26}) {
		t.Errorf("the zone's tally is %+v, want the 26 above its front cancelled", reply.Tally)
	}
}

// seeds are records and deltas of every kind.
func seeds() (list [][]byte) {
	b, _, _ := mergeBlock(nil, EncodeBlockOps([]BlockOp{endOp(1, filch.Failed, 2, a1), startOp(9, 3, 1, b1, false)}, true))
	z, _, _ := mergeZone(nil, EncodeZoneOps([]ZoneOp{
		{Kind: ZoneFront, Lo: 0, Hi: 900, Front: 64, Owner: a1},
		{Kind: ZoneMove, Lo: 500, Hi: 900, From: a1, Owner: b1, Front: 600},
		{Kind: ZoneVoid, Lo: 100, Hi: 200, Owner: a1, Void: filch.Cancelled},
	}, true))
	j := &Job{Ticket: filch.Ticket{UnixNS: 5, Job: 1}, Leader: a1, Total: 9, Conditions: Conditions{After: []filch.JobID{3}}, Zones: []ZoneTally{{0, Tally{OK: 2}}}}
	k, _, _ := mergeCap(nil, CapOp{Limit: 5, Owner: a1, Seq: 1, Want: 3}.Encode())
	p := &Payload{Offs: []uint8{0, 5}, Lines: [][]byte{[]byte("echo a#b@c&d~e?f!g$h"), nil}}
	slotted := endOp(3, filch.OK, 1, a1)
	slotted.Slots = filch.SlotsOf([]int32{2, 3, 64, 300, 301})
	n, _, _ := mergeBlock(b, EncodeBlockOps([]BlockOp{slotted}, true))
	s := &Spec{Body: []byte{1, 2}, Cap: 3, Picks: []Pick{{1, 2}}}
	return [][]byte{
		b, n, z, j.Encode(), k, p.Encode(), s.Encode(),
		EncodeBlockOps([]BlockOp{endOp(1, filch.OK, 1, a1)}, true), EncodeZoneOps([]ZoneOp{{Kind: ZoneLose, From: a1, Owner: b1, Take: 4}}, true),
		EncodeBlockOps([]BlockOp{{Kind: BlockTake, To: 9, From: b1, Most: 3, Task: Task{Owner: c1, Take: 5}}}, true),
		EncodeJobOp(JobOp{Kind: JobCreate, Job: j}), EncodeJobOp(JobOp{Kind: JobZoneTally, Tally: ZoneTally{0, Tally{OK: 3}}}),
	}
}

// A job's end is when the last thing happened that it waited for, and stays.
func TestJobEndsOnce(t *testing.T) {
	rec, _, err := mergeJob(nil, EncodeJobOp(JobOp{Kind: JobCreate, Job: &Job{Total: 2}}))
	for _, step := range []struct {
		op   JobOp
		want int64
	}{
		{JobOp{Kind: JobZoneTally, Tally: ZoneTally{0, Tally{OK: 2}}, At: 10}, 0},
		{JobOp{Kind: JobAdd, Add: Addition{Token: 1, Count: 1}}, 0},
		{JobOp{Kind: JobClose, At: 20}, 0},
		{JobOp{Kind: JobZoneTally, Tally: ZoneTally{0, Tally{OK: 2, Failed: 1}}, At: 30}, 30},
		{JobOp{Kind: JobZoneTally, Tally: ZoneTally{0, Tally{OK: 2, Failed: 1}}, At: 40}, 30},
		{JobOp{Kind: JobVoid, Void: filch.Cancelled, At: 50}, 30},
	} {
		if err == nil {
			rec, _, err = mergeJob(rec, EncodeJobOp(step.op))
		}
		if err != nil {
			t.Fatal(err)
		}
		if j, err := DecodeJob(rec); err != nil || j.Ended != step.want {
			t.Fatalf("after %+v the end is %d, want %d (%v)", step.op, j.Ended, step.want, err)
		}
	}
}

// FuzzMerge: whatever a record and a delta are, a merge ends, and what it makes
// is a record that the same delta does not change in kind.
func FuzzMerge(f *testing.F) {
	for i, a := range seeds() {
		for _, b := range seeds() {
			f.Add(uint8(i%6+1), a, b)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, old, delta []byte) {
		if len(old) == 0 {
			old = nil
		}
		for k, merge := range Merges() {
			if uint8(k) != kind {
				continue
			}
			val, _, err := merge(old, delta)
			if err != nil || val == nil {
				continue
			}
			if _, _, err := merge(val, delta); err != nil {
				t.Errorf("a record of kind %d that a merge made is refused: %v", k, err)
			}
		}
	})
}

// FuzzDecode: hostile bytes are refused or read, with memory in proportion.
func FuzzDecode(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		_, _ = DecodeSpec(v)
		_, _ = DecodeJob(v)
		if b, err := DecodeBlock(v); err == nil && len(v) > 0 {
			if again, err := DecodeBlock(b.Encode()); err != nil || !reflect.DeepEqual(again, b) {
				t.Fatalf("%x is %+v, and encoded again %+v, %v", v, b, again, err)
			}
		}
		_, _ = DecodeZone(v)
		_, _ = DecodeCap(v)
		_, _ = DecodePayload(v)
		_, _ = DecodeGraphNode(v)
		_, _ = DecodeBlockReply(v)
		_, _ = DecodeZoneReply(v)
	})
}

func TestBadTextCounts(t *testing.T) {
	for _, c := range []struct {
		tally Tally
		want  string
	}{
		{Tally{OK: 3}, ""},
		{Tally{OK: 3, Failed: 2}, "2 failed"},
		{Tally{Failed: 1, Killed: 2, Lost: 3, Skipped: 4, Cancelled: 5}, "1 failed, 2 killed, 3 lost, 4 skipped, 5 cancelled"},
	} {
		if got := c.tally.BadText(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.tally, got, c.want)
		}
	}
}

// However many owners and parts a zone has, what comes of it can be read, and it
// can still be cancelled; who can have no part of it leaves it to its owner.
func TestAZoneOfManyPartsStaysReadable(t *testing.T) {
	victim := Owner{"victim-of-a-rather-long-name", 1}
	for _, name := range []string{"thief", "%d.thief-of-a-rather-long-name.in-the-cloud.internal"} {
		var z []byte
		ask := func(ops ...ZoneOp) []Verdict {
			t.Helper()
			val, reply, err := mergeZone(z, EncodeZoneOps(ops, false))
			if err != nil {
				t.Fatal(err)
			}
			if len(val) > 250<<10 {
				t.Fatalf("a zone of %d bytes: the store takes 256 KiB", len(val))
			}
			z = val
			p, err := DecodeZoneReply(reply)
			if err != nil {
				t.Fatal(err)
			}
			return p.Verdicts
		}
		ask(ZoneOp{Kind: ZoneFront, Lo: 0, Hi: ZoneSize, Front: 1, Owner: victim})
		var moves, voids []ZoneOp
		for i := int32(ZoneSize - 4); i > 4; i -= 4 {
			thief := Owner{filch.NodeName(name), uint64(i)}
			if name != "thief" {
				thief.Node = filch.NodeName(fmt.Sprintf(name, i))
			}
			moves = append(moves, ZoneOp{Kind: ZoneMove, Lo: i, Hi: i + 2, Front: i, Owner: thief, From: victim})
		}
		got := map[Verdict]int{}
		for some := range slices.Chunk(moves, 256) {
			for _, v := range ask(some...) {
				got[v]++
			}
		}
		if got[VerdictDone] < 1024 || got[VerdictInvalid] == 0 || len(got) != 2 {
			t.Errorf("verdicts %v: too few moves, none refused for want of room, or for another reason", got)
		}
		d, err := DecodeZone(z)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range d.Spans {
			voids = append(voids, ZoneOp{Kind: ZoneVoid, Lo: min(s.Lo+1, s.Hi-1), Hi: s.Hi, Hop: s.Hop, Owner: s.Owner, Void: filch.Cancelled})
		}
		for some := range slices.Chunk(voids, 256) {
			for i, v := range ask(some...) {
				if v != VerdictDone {
					t.Fatalf("%+v cannot be cancelled: %v", some[i], v)
				}
			}
		}
	}
}

// A node that was declared dead and goes on offers what it had to the node that
// has it since: that is no repeat of a move which happened.
func TestMoveAfterLossIsNoRepeat(t *testing.T) {
	late := BlockOp{Kind: BlockMove, Off: 2, From: b1, Task: Task{Attempt: 1, Hop: 1, Owner: c1}}
	_, got := block(t, nil, BlockOp{Kind: BlockMove, Off: 2, From: a1, Task: Task{Attempt: 1, Owner: b1}},
		BlockOp{Kind: BlockTake, To: 3, From: b1, Most: 3, Task: Task{Owner: c1}}, late)
	if got[2] != VerdictOther {
		t.Errorf("the move of a task that was taken: %v, want %v", got[2], VerdictOther)
	}
	zone := func(hop uint32, from, who Owner, kind ZoneOpKind) ZoneOp {
		return ZoneOp{Kind: kind, Lo: 0, Hi: 100, Front: 10, Hop: hop, Owner: who, From: from}
	}
	delta := EncodeZoneOps([]ZoneOp{zone(0, a1, b1, ZoneMove), zone(0, b1, c1, ZoneLose), zone(1, b1, c1, ZoneMove)}, false)
	_, reply, err := mergeZone(nil, delta)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := DecodeZoneReply(reply); err != nil || p.Verdicts[2] != VerdictOther {
		t.Errorf("the move of a range that was taken: %v (%v), want %v", p.Verdicts, err, VerdictOther)
	}
}

// TestStagingIsNoRunTime: a task had its slot for 10 s, and 7 s of these its files came and
// went: the task ran for 3 s. Without stages, the task ran all the time.
func TestStagingIsNoRunTime(t *testing.T) {
	k := Task{TookUS: 10_000_000, Stages: &Stages{Queued: time.Hour, In: 5 * time.Second, Out: 2 * time.Second}}
	if got := k.Ran(); got != 3*time.Second {
		t.Errorf("the task ran for %v, want 3s", got)
	}
	if k.Stages = nil; k.Ran() != 10*time.Second {
		t.Errorf("without stages the task ran for %v, want 10s", k.Ran())
	}
	if k = (Task{TookUS: 1, Stages: &Stages{In: time.Second}}); k.Ran() != 0 {
		t.Errorf("a task that staged for longer than it took ran for %v", k.Ran())
	}
}
