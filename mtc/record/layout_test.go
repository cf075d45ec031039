package record

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

var (
	alice = Owner{"n1", 7}
	bob   = Owner{"node-2", 300}
)

// Records outlive the launcher that wrote them: their bytes stay as they are.
func TestLayoutsStay(t *testing.T) {
	tally := Tally{OK: 300, Failed: 2, Killed: 3, Lost: 4, Skipped: 5, Cancelled: 6}
	job := &Job{
		Name: "bag", Ticket: filch.Ticket{Class: -3, UnixNS: 1 << 60, Job: 12}, Leader: bob, Hop: 9, Total: 70000,
		Closed: true, Lines: true, Void: filch.Cancelled, Conditions: Conditions{After: []filch.JobID{3, 400}},
		Zones: []ZoneTally{{0, tally}, {1, Tally{OK: 1}}}, Added: []Addition{{5, 6, 700, alice}}, Ended: -8,
	}
	ordered := &Job{
		Name: "bag", Ticket: filch.Ticket{Job: 12}, Leader: alice, Total: 700, Void: filch.Skipped, Conditions: Conditions{After: []filch.JobID{}}, Zones: []ZoneTally{}, Added: []Addition{},
		Orders: Orders{Serial: 300, Held: true, By: "ann", Reason: "wrong", Cancels: []Pick{{0, 2}, {300, 400}}, Reasons: []TaskReason{{"x", []Pick{{1, 1}}}}},
	}
	orders := JobOp{Kind: JobOrder, Orders: ordered.Orders}
	needs := []Need{{Each: filch.Room{Slots: 2, MemBytes: 300, GPUs: 250, Named: "a=1,b=2"}}, {Nodes: &filch.Nodes{Only: []filch.NodeName{"n1"}, Exclude: []filch.NodeName{}, Labels: "a100"}}}
	spec := &Spec{
		Body: []byte{1, 2, 3}, Each: filch.Room{Slots: 2, MemBytes: 1 << 33, GPUs: 1}, Cap: 4, Retries: 5, CrashLimit: 6, Sure: true, Once: true, OnFail: FailOn,
		Payloads: true, Limits: true, First: -7, Step: 8, Picks: []Pick{{-1, 2}, {300, 4}}, Limit: time.Minute, Like: "solve", Expect: time.Second,
	}
	licenses := &Spec{License: License{"seat", 0}, Picks: []Pick{}, Needs: []Need{{License: 3}, {Each: filch.Room{Slots: 1}, License: 300}}}
	ruled := *spec
	ruled.Retry = &Retry{Delay: time.Second, Codes: []CodeRange{{1, 3}, {75, 75}}, Tasks: true, Times: 3}
	block := &Block{Offs: []uint8{0, 9, 200}, Tasks: []Task{
		{State: filch.OK, Attempt: 1, Began: 55, TookUS: 66, By: alice, Bytes: 77, Cut: true},
		{Attempt: 2, Hop: 3, Crashes: 4, Owner: bob, Started: true, Take: 99},
		{State: filch.Failed, Code: -1, Attempt: 1, By: bob, Maybe: true, Extra: 5, Owner: alice},
	}}
	used := filch.Usage{User: 3 * time.Second, System: 400 * time.Microsecond, PeakBytes: 5 << 20, AtMost: true}
	usedTally := Tally{OK: 300, Cancelled: 6, Usage: used}
	usedJob, usedBlock := *job, &Block{Offs: []uint8{7}, Tasks: []Task{{State: filch.OK, Attempt: 1, Began: 55, TookUS: 66, By: alice, Usage: &used}}}
	usedJob.Zones = []ZoneTally{{0, usedTally}}
	usedOps := []BlockOp{{Kind: BlockEnd, Off: 1, Task: Task{State: filch.OK, Attempt: 1, Owner: alice, Began: 5, TookUS: 6, Cut: true, Usage: &used}}}
	cutZone := &Zone{Spans: []Span{}, Blocks: []BlockTally{{256, Tally{OK: 5, Cancelled: 1, Cut: true}}}}
	recalled := &Block{Offs: []uint8{7}, Tasks: []Task{{Attempt: 3, Recalls: 2, Owner: alice, Started: true}}}
	earlier := &Block{Offs: []uint8{7}, Tasks: []Task{{Attempt: 3, Owner: alice, Started: true, Earlier: []Owner{bob, alice}}}}
	rivals := []Rival{{Owner: bob}, {Owner: alice, Over: true}}
	copied := &Block{Offs: []uint8{7}, Tasks: []Task{{State: filch.OK, Attempt: 1, Began: 55, TookUS: 66, By: alice, Copy: true, Rivals: rivals}}}
	copiedOps := []BlockOp{{Kind: BlockEnd, Off: 1, Task: Task{State: filch.OK, Attempt: 1, Owner: alice, Began: 5, TookUS: 6, Copy: true, Rivals: rivals}}}
	began := *job
	began.Began, began.Partial = 1<<40, true
	runs := []NodeRun{{"n9", 1}, {"n1", 8}, {"", 300}}
	gang := &Block{Offs: []uint8{7}, Tasks: []Task{{State: filch.OK, Attempt: 1, Began: 55, TookUS: 66, By: alice, Nodes: runs}}}
	gangOps := []BlockOp{{Kind: BlockEnd, Off: 1, Task: Task{State: filch.OK, Attempt: 1, Owner: alice, Began: 5, TookUS: 6, Nodes: runs}}}
	slotted := &Block{Offs: []uint8{7, 8}, Tasks: []Task{
		{State: filch.OK, Attempt: 1, Began: 55, TookUS: 66, By: alice, Slots: filch.SlotsOf([]int32{5})},
		{State: filch.OK, Attempt: 1, Began: 55, TookUS: 66, By: alice, Slots: filch.SlotsOf([]int32{2, 3, 64, 300, 301})},
	}}
	slottedOps := []BlockOp{{Kind: BlockEnd, Off: 1, Task: Task{State: filch.OK, Attempt: 1, Owner: alice, Began: 5, TookUS: 6, Slots: filch.SlotsOf([]int32{5})}}}
	recalledOps := []BlockOp{{Kind: BlockStart, Off: 7, Task: Task{Attempt: 3, Recalls: 2, Owner: alice}}}
	stages := &Stages{Queued: 12340 * time.Millisecond, In: 1500 * time.Microsecond, Out: 800 * time.Microsecond}
	staged := &Block{Offs: []uint8{7}, Tasks: []Task{{State: filch.OK, Attempt: 1, Began: 55, TookUS: 66, By: alice, Stages: stages}}}
	stagedOps := []BlockOp{{Kind: BlockEnd, Off: 1, Task: Task{State: filch.OK, Attempt: 1, Owner: alice, Began: 5, TookUS: 6, Stages: stages}}}
	zone := &Zone{
		Spans:  []Span{{Lo: 65536, Hi: 65600, Front: 65540, Hop: 2, Owner: alice}, {Lo: 65600, Hi: 66000, Front: 65600, Owner: bob, Void: filch.Skipped, Take: 1 << 40}},
		Blocks: []BlockTally{{256, tally}, {300, Tally{Lost: 7}}},
	}
	limit := &Cap{Limit: 10, Holders: []Holder{{alice, 1, 2, 3}, {bob, 400, 5, 6}}}
	payload := &Payload{Offs: []uint8{0, 3}, Lines: [][]byte{{1, 2}, {3}}}
	node := &GraphNode{Name: "a", Parents: []int32{0, 300}, Bytes: 1 << 40, Output: 1, Length: 2, Kind: "k", Body: []byte{9, 8}}
	after := &GraphNode{Name: "a", Parents: []int32{5, 1, 300}, After: 2, Kind: "k", Body: []byte{9, 8}}
	blockOps := []BlockOp{
		{Kind: BlockEnd, Off: 1, Task: Task{State: filch.Killed, Code: 137, Attempt: 2, Hop: 3, Owner: alice, Crashes: 1, Began: 5, TookUS: 6, Bytes: 7, Cut: true}},
		{Kind: BlockStart, Off: 2, Once: true, Task: Task{Attempt: 1, Owner: bob, Maybe: true}},
		{Kind: BlockMove, Off: 3, Task: Task{Attempt: 1, Owner: bob}, From: alice},
		{Kind: BlockTake, Off: 4, To: 9, Once: true, Task: Task{Owner: alice, Take: 77}, From: bob, Most: 5, Spare: true},
		{Kind: BlockTakeImplicit, Off: 4, To: 9, Task: Task{Owner: alice}, From: bob, Sure: true},
	}
	zoneOps := []ZoneOp{
		{Kind: ZoneFront, Lo: 1, Hi: 2, Front: 2, Hop: 3, Owner: alice},
		{Kind: ZoneMove, Lo: 1, Hi: 2, Front: 1, Owner: bob, From: alice},
		{Kind: ZoneLose, Owner: alice, From: bob, Take: 88},
		{Kind: ZoneVoid, Lo: 1, Hi: 2, Front: 1, Owner: alice, Void: filch.Cancelled},
		{Kind: ZoneBlockTally, Tally: BlockTally{3, tally}},
	}
	for name, c := range map[string]struct {
		bytes []byte
		hex   string
		value any
		read  func([]byte) (any, error)
	}{
		"job":        {job.Encode(), "036261670580808080808080802018066e6f64652d32ac0209f0a20401000100080206a0060200ac02020304050601010000000000010506bc05026e31070f", job, func(v []byte) (any, error) { return DecodeJob(v) }},
		"spec":       {spec.Encode(), "03010203028080808020010405060102010d1080e0ba84bf03020102d8040405736f6c766580a8d6b9070101", spec, func(v []byte) (any, error) { return DecodeSpec(v) }},
		"block":      {block.Encode(), "02026e3107066e6f64652d32ac020300a102036e8401004d098e040203040163c8d50104000001000501", block, func(v []byte) (any, error) { return DecodeBlock(v) }},
		"zone":       {zone.Encode(), "02026e3107066e6f64652d32ac020280800440848004020000c080049003c08004000187808080808020028002ac020203040506ac02000000070000", zone, func(v []byte) (any, error) { return DecodeZone(v) }},
		"cap":        {limit.Encode(), "0a02026e3107010203066e6f64652d32ac0290030506", limit, func(v []byte) (any, error) { return DecodeCap(v) }},
		"payload":    {payload.Encode(), "0200020102030103", payload, func(v []byte) (any, error) { return DecodePayload(v) }},
		"after":      {after.Encode(), "016103058280808004ad82808004000000016b0908", after, func(v []byte) (any, error) { n, err := DecodeGraphNode(v); return &n, err }},
		"node":       {node.Encode(), "01610200ac028080808080200102016b0908", node, func(v []byte) (any, error) { n, err := DecodeGraphNode(v); return &n, err }},
		"block ops":  {EncodeBlockOps(blockOps, true), "0102026e3107066e6f64652d32ac0205010102030001000592020a0c070102020100010001010303010001000000040400000000000901050100014d0504000000000009010000010000", blockOps, func(v []byte) (any, error) { ops, _, err := DecodeBlockOps(v); return ops, err }},
		"zone ops":   {EncodeZoneOps(zoneOps, false), "0003026e31070000066e6f64652d32ac02050101020203000100020102010002000003000000000002005804010201000001080503ac020203040506", zoneOps, func(v []byte) (any, error) { ops, _, err := DecodeZoneOps(v); return ops, err }},
		"create":     {EncodeJobOp(JobOp{Kind: JobCreate, Job: job}), "01036261670580808080808080802018066e6f64652d32ac0209f0a20401000100080206a0060200ac02020304050601010000000000010506bc05026e31070f", nil, nil},
		"add":        {EncodeJobOp(JobOp{Kind: JobAdd, Add: Addition{Token: 3, Count: 400, By: alice}, Lines: true}), "02039003026e310701", nil, nil},
		"close":      {EncodeJobOp(JobOp{Kind: JobClose, At: 77}), "039a01", nil, nil},
		"void":       {EncodeJobOp(JobOp{Kind: JobVoid, Void: filch.Skipped, At: 77}), "04079a01", nil, nil},
		"lose":       {EncodeJobOp(JobOp{Kind: JobLose, From: alice, To: bob}), "05026e3107066e6f64652d32ac02", nil, nil},
		"tally":      {EncodeJobOp(JobOp{Kind: JobZoneTally, Tally: ZoneTally{2, tally}, At: 77}), "0602ac0202030405069a0100", nil, nil},
		"used block": {usedBlock.Encode(), "01026e310701078108036e840100c08db70190038150", usedBlock, func(v []byte) (any, error) { return DecodeBlock(v) }},
		"used job":   {usedJob.Encode(), "036261670580808080808080802018066e6f64652d32ac0209f0a20401000100080206a0060100ac02000000008680808008c08db70190038150010506bc05026e31070f", &usedJob, func(v []byte) (any, error) { return DecodeJob(v) }},
		"used ops":   {EncodeBlockOps(usedOps, false), "0001026e3107010101010000000003000a0c0003c08db70190038150", usedOps, func(v []byte) (any, error) { ops, _, err := DecodeBlockOps(v); return ops, err }},
		"cut zone":   {cutZone.Encode(), "000001800205000000008180808010", cutZone, func(v []byte) (any, error) { return DecodeZone(v) }},
		"staged":     {staged.Encode(), "01026e310701078140036e840100b460dc0ba006", staged, func(v []byte) (any, error) { return DecodeBlock(v) }},
		"staged ops": {EncodeBlockOps(stagedOps, false), "0001026e3107010101010000000003000a0c0004b460dc0ba006", stagedOps, func(v []byte) (any, error) { ops, _, err := DecodeBlockOps(v); return ops, err }},
		"recalled":   {recalled.Encode(), "01026e310701078e100300000002", recalled, func(v []byte) (any, error) { return DecodeBlock(v) }},
		"earlier":    {earlier.Encode(), "02026e3107066e6f64652d32ac0201078e2003000000020100", earlier, func(v []byte) (any, error) { return DecodeBlock(v) }},
		"copied":     {copied.Encode(), "02026e3107066e6f64652d32ac020107818003036e8401000201000001", copied, func(v []byte) (any, error) { return DecodeBlock(v) }},
		"copied ops": {EncodeBlockOps(copiedOps, false), "0002026e3107066e6f64652d32ac02010101010000000003000a0c00180201000001", copiedOps, func(v []byte) (any, error) { ops, _, err := DecodeBlockOps(v); return ops, err }},
		"began":      {began.Encode(), "036261670580808080808080802018066e6f64652d32ac0209f0a20401000103080206a0060200ac02020304050601010000000000010506bc05026e31070f808080808040", &began, func(v []byte) (any, error) { return DecodeJob(v) }},
		"gang":       {gang.Encode(), "01026e31070107818004036e84010003026e3901026e310800ac02", gang, func(v []byte) (any, error) { return DecodeBlock(v) }},
		"gang ops":   {EncodeBlockOps(gangOps, false), "0001026e3107010101010000000003000a0c002003026e3901026e310800ac02", gangOps, func(v []byte) (any, error) { ops, _, err := DecodeBlockOps(v); return ops, err }},
		"slots":      {slotted.Encode(), "01026e3107020701436e8401000a0801436e8401000502023c01eb0102", slotted, func(v []byte) (any, error) { return DecodeBlock(v) }},
		"slots ops":  {EncodeBlockOps(slottedOps, false), "0001026e3107010101010000000003000a0c00400a", slottedOps, func(v []byte) (any, error) { ops, _, err := DecodeBlockOps(v); return ops, err }},
		"began ops":  {EncodeJobOp(JobOp{Kind: JobZoneTally, Tally: ZoneTally{2, tally}, At: 77, Began: 70}), "0602ac0202030405069a0146", nil, nil},
		"recall ops": {EncodeBlockOps(recalledOps, false), "0001026e310701020703000000020200", recalledOps, func(v []byte) (any, error) { ops, _, err := DecodeBlockOps(v); return ops, err }},
		"firm":       {(&Spec{Firm: true}).Encode(), "000000000000000200000000000000000000", &Spec{Picks: []Pick{}, Firm: true}, func(v []byte) (any, error) { return DecodeSpec(v) }},
		"cap op":     {CapOp{Limit: 4, Owner: bob, Seq: 500, Want: 6, Deed: CapLose}.Encode(), "04066e6f64652d32ac02f4030601", nil, nil},
		"ordered":    {ordered.Encode(), "03626167000018026e310700bc05000000008700000000ac020103616e6e0577726f6e67010178010101020002ac029003", ordered, func(v []byte) (any, error) { return DecodeJob(v) }},
		"order":      {EncodeJobOp(orders), "07ac020103616e6e0577726f6e67010178010101020002ac029003", &orders, func(v []byte) (any, error) { p, err := decodeJobOp(v); return &p, err }},
		"void why":   {EncodeJobOp(JobOp{Kind: JobVoidWhy, Void: filch.Cancelled, At: 77, Orders: Orders{Reason: "wrong"}}), "08089a010577726f6e67", nil, nil},
		// The bytes of a spec without a rule, and then the rule.
		"rule":     {ruled.Encode(), "03010203028080808020010405060102010d1080e0ba84bf03020102d8040405736f6c766580a8d6b90701018094ebdc030201034b4b0103", &ruled, func(v []byte) (any, error) { return DecodeSpec(v) }},
		"needs":    {(&Spec{Needs: needs}).Encode(), "0000000000000000000000000000000000200202ac02fa0107613d312c623d3200000000000101026e31000461313030", &Spec{Picks: []Pick{}, Needs: needs}, func(v []byte) (any, error) { return DecodeSpec(v) }},
		"licenses": {licenses.Encode(), "0000000000000000000000000000000000b0047365617400020000000000010000000003ac02", licenses, func(v []byte) (any, error) { return DecodeSpec(v) }},
		"again":    {(&Spec{Sure: true, Again: []Pick{{5, 1}, {300, 2}}}).Encode(), "000000000000000000000000000000000003020a01d80402", &Spec{Picks: []Pick{}, Sure: true, Again: []Pick{{5, 1}, {300, 2}}}, func(v []byte) (any, error) { return DecodeSpec(v) }},
	} {
		if got := hex.EncodeToString(c.bytes); got != c.hex {
			t.Errorf("%s is\n%s, want\n%s", name, got, c.hex)
		}
		if c.read == nil {
			continue
		}
		if got, err := c.read(c.bytes); err != nil || !reflect.DeepEqual(got, c.value) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c.value)
		}
		for n := range len(c.bytes) {
			if _, err := c.read(c.bytes[:n]); err == nil && n > 0 && name != "node" && name != "after" && (name != "rule" || n != len(spec.Encode())) {
				t.Errorf("%s: the first %d of %d bytes can be read", name, n, len(c.bytes))
			}
		}
	}
}
