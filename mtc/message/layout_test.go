package message

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
)

// Messages go between launchers of one wire version: their bytes stay as they are.
func TestLayoutsStay(t *testing.T) {
	means := Means{Free: filch.Room{Slots: 3, GPUs: 500, MemBytes: 300, Named: "a=1"}, Caps: []CapWord{{Job: 7, Idle: 8}, {Job: -1, Idle: 300}}, Left: time.Minute, Lengths: []Length{{7, 300, 5}}}
	for _, c := range []struct {
		m   Message
		hex string
	}{
		{&LoadAsk{Round: 300, Means: means}, "01ac0280b09dc2df0103ac02f40303613d31020e0801ac020000010eac0205"},
		{&LoadSay{Round: 2, Load: 1 << 40}, "020280808080802000"},
		{&Steal{Ask: 1 << 50, Means: Means{Caps: []CapWord{}, Lengths: []Length{}}}, "038080808080808002000000000000000000"},
		{&Steal{Ask: 1, Means: Means{Free: filch.Room{Slots: 2}, Caps: []CapWord{}, Lengths: []Length{}, Fill: policy.Fill{Limit: 5, Usual: 300}}}, "03010002000000000200000" + "5ac02"},
		{&Offer{Ranges: []RangeItem{{1, 2, 300, 4}}, Tasks: []TaskItem{}, Copies: []CopyItem{}, Usual: 300}, "040000000102" + "02ac02040000ac0200"},
		{&Offer{
			Life: 1, Xfer: 2, Ask: 300, Ranges: []RangeItem{{1, 2, 300, 4}},
			Tasks:  []TaskItem{{Job: 1, Index: 2, Attempt: 3, Hop: 4, Crashes: 5, Maybe: true, Dedicated: true, Level: 300, Bytes: 600, Inputs: []policy.Input{{Parent: 1, Node: "a", Bytes: 2}}}},
			Copies: []CopyItem{},
		}, "040102ac02010202ac02040102020304050101ac02d8040101016102000000"},
		{&Offer{
			Ranges: []RangeItem{}, Tasks: []TaskItem{{Job: 1, Attempt: 1, Inputs: []policy.Input{}}, {Job: 1, Index: 1, Attempt: 1, Need: 300, Inputs: []policy.Input{}}}, Copies: []CopyItem{},
		}, "04000000000202000100000000000000020101000002ac0200000000000000"},
		{&Offer{Ranges: []RangeItem{}, Tasks: []TaskItem{{Job: 1, Attempt: 3, Recalls: 2, Inputs: []policy.Input{}}}, Copies: []CopyItem{}}, "0400000000010200030000040200000000000000"},
		{&Offer{Ranges: []RangeItem{}, Tasks: []TaskItem{}, Copies: []CopyItem{{300, TaskItem{Job: 1, Index: 2, Attempt: 3, Inputs: []policy.Input{}}}}}, "04000000000001ac02020203000000000000000000"},
		{&CopySay{Life: 1, Number: 300, Job: 2, Index: 3, State: CopyRuns, Ended: true, Took: 4}, "0d01ac020403030104"},
		{&CopyAnswer{Life: 1, Number: 300, Go: true}, "0e01ac0201"},
		{&Done{Life: 1, Xfer: 2, All: true}, "05010201"},
		{&News{Load: 300, Source: "a"}, "06ac02000161"},
		{&Void{Job: 4, State: filch.Cancelled}, "070808"},
		{&Told{Job: 5, Serial: 600, Rate: 300, Ends: []ToldEnd{{1, filch.Failed, 2, 3, "node"}}}, "080ad804ac020101040203046e6f6465"},
		{&ToldAck{Job: 5, Serial: 600}, "090ad804"},
		{&Grown{Job: -6}, "0a0b"},
		{&Ordered{Job: 7, Serial: 300}, "0b0eac02"},
		{&OrderedAck{Job: 7, Serial: 300}, "0c0eac02"},
		{&WorkAsk{}, "0f"},
		{&WorkSay{policy.Load{Slots: 4, Free: 1, Work: 300, Rate: 600}}, "100401ac02d804"},
	} {
		v := Encode(c.m)
		if got := hex.EncodeToString(v); got != c.hex {
			t.Errorf("%s is %s, want %s", Name(v), got, c.hex)
		}
		if got, err := Decode(v); err != nil || !reflect.DeepEqual(got, c.m) {
			t.Errorf("%s: got %+v, %v, want %+v", Name(v), got, err, c.m)
		}
		for n := range len(v) {
			if _, err := Decode(v[:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes can be read", Name(v), n, len(v))
			}
		}
	}
}
