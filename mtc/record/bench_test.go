package record

import (
	"testing"

	"github.com/filch-hpc/filch"
)

// BenchmarkMergeBlock is what one word about 16 ends costs at a block's home,
// which works it out twice: once more to see whether the answer has to be kept.
func BenchmarkMergeBlock(b *testing.B) {
	who := Owner{"n1", 1}
	var full []byte
	for lo := 0; lo < BlockSize; lo += 16 {
		full, _, _ = mergeBlock(full, EncodeBlockOps(endsAt(lo, who), false))
	}
	delta := EncodeBlockOps(endsAt(240, who), false)
	for b.Loop() {
		if _, _, err := mergeBlock(full, delta); err != nil {
			b.Fatal(err)
		}
	}
}

func endsAt(lo int, who Owner) (ops []BlockOp) {
	for off := lo; off < lo+16; off++ {
		op := BlockOp{Kind: BlockEnd, Off: uint8(off)}
		op.Owner, op.By, op.State, op.Attempt = who, who, filch.OK, FirstAttempt
		ops = append(ops, op)
	}
	return ops
}
