package output

import (
	"bytes"
	"strconv"

	"github.com/filch-hpc/filch"
)

// Width is the number of digits of the highest rank of size ranks: the width
// of a label's number, as in srun -l.
func Width(size int32) int {
	if size <= 1 {
		return 1
	}
	return len(strconv.Itoa(int(size - 1)))
}

// AppendLabel appends the prefix of a line of rank r to dst: the number of the rank,
// right-aligned in width, a colon and a space.
func AppendLabel(dst []byte, r filch.Rank, width int) []byte {
	var digits [12]byte
	number := strconv.AppendInt(digits[:0], int64(r), 10)
	for i := len(number); i < width; i++ {
		dst = append(dst, ' ')
	}
	dst = append(dst, number...)
	return append(dst, ':', ' ')
}

// AppendLabeled appends piece to dst with the label of r before each line. A piece
// without a newline at its end receives a newline, as in srun: a label must begin a
// line.
func AppendLabeled(dst []byte, r filch.Rank, width int, piece []byte) []byte {
	for len(piece) > 0 {
		end := bytes.IndexByte(piece, '\n') + 1
		line := piece
		if end > 0 {
			line = piece[:end]
		}
		dst = AppendLabel(dst, r, width)
		dst = append(dst, line...)
		if end == 0 {
			return append(dst, '\n')
		}
		piece = piece[end:]
	}
	return dst
}
