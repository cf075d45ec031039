package message

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
)

// FuzzDecodeMessage: hostile bytes are refused or read, with memory in proportion.
func FuzzDecodeMessage(f *testing.F) {
	for _, m := range []Message{
		&Offer{Xfer: 1, Ranges: []RangeItem{{1, 2, 3, 4}}, Tasks: []TaskItem{{Job: 1, Index: 2, Attempt: 1, Inputs: []policy.Input{{Parent: 1, Node: "a", Bytes: 2}}}}},
		&Told{Job: 1, Serial: 2, Ends: []ToldEnd{{1, filch.OK, 2, 3, "a"}}},
	} {
		f.Add(Encode(m))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		if m, err := Decode(v); err == nil {
			again, err := Decode(Encode(m))
			if err != nil {
				t.Errorf("%+v does not read back: %v (%+v)", m, err, again)
			}
		}
	})
}
