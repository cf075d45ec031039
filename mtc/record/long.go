package record

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// A task of a workflow may have thousands of files. A body that makes the payload too long
// is cut into chunks, each a record of the job; the payload has a [Long] in place of the
// body's text. The chunks are written before the job's own record.
const (
	LongChunk    = 128 << 10 // bytes of a chunk but the last of a text
	LongMax      = 16 << 20  // bytes of the text of one task
	LongTotalMax = 48 << 20  // bytes of all chunks of a job: they come in one frame
	LongChunks   = 1 << 16   // chunks of a job
)

// Long is a text in chunks of its job.
type Long struct {
	First int32 // number of the first chunk
	Size  int32
}

// Count is the number of chunks.
func (l Long) Count() int32 { return ceil(l.Size, LongChunk) }

func (l *Long) fields(c *Codec) {
	Index(c, &l.First)
	Index(c, &l.Size)
	c.Require(l.Size > 0 && l.Size <= LongMax && l.First < LongChunks)
}

// Encode is the bytes in place of the text.
func (l Long) Encode() []byte {
	c := Writing(8)
	l.fields(&c)
	return c.B
}

// DecodeLong reads the bytes in place of a text.
func DecodeLong(v []byte) (l Long, err error) {
	c := Reading(v)
	l.fields(&c)
	return l, c.Done()
}

// CutLong appends the chunks of a text to the chunks of a job.
func CutLong(chunks [][]byte, text []byte) ([][]byte, Long, error) {
	if len(text) == 0 || len(text) > LongMax {
		return chunks, Long{}, filch.Errorf(filch.Invalid, "a text has %d bytes, at most %d", len(text), LongMax)
	}
	l := Long{First: int32(len(chunks)), Size: int32(len(text))}
	return slices.AppendSeq(chunks, slices.Chunk(text, LongChunk)), l, nil
}

// JoinLong is the text of the chunks; an error if a chunk is missing or has a wrong length.
func JoinLong(l Long, chunks [][]byte) ([]byte, error) {
	if len(chunks) != int(l.Count()) {
		return nil, filch.Errorf(filch.Unavailable, "%d chunks of %d", len(chunks), l.Count())
	}
	text := make([]byte, 0, l.Size)
	for i, c := range chunks {
		if want := min(int(l.Size)-i*LongChunk, LongChunk); len(c) != want {
			return nil, filch.Errorf(filch.Unavailable, "chunk %d of %d has %d bytes, not %d", i+1, l.Count(), len(c), want)
		}
		text = append(text, c...)
	}
	return text, nil
}

// CheckLong refuses chunks beyond the limits.
func CheckLong(long [][]byte) error {
	size := 0
	for i, c := range long {
		if size += len(c); len(c) == 0 || len(c) > LongChunk {
			return filch.Errorf(filch.Invalid, "chunk %d of long texts has %d bytes, from 1 to %d", i, len(c), LongChunk)
		}
	}
	if len(long) > LongChunks || size > LongTotalMax {
		return filch.Errorf(filch.Invalid, "the long texts of a job have %d bytes in %d chunks; at most %d bytes and %d chunks", size, len(long), LongTotalMax, LongChunks)
	}
	return nil
}
