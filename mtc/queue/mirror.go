package queue

import (
	"bytes"
	"encoding/base64"
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// A mirror is a copy of the jobs' records on a file system that outlives the nodes: a
// file for each writer, to which the writer only appends lines. A line belongs to a
// single record, and has a checksum, so that a reader passes over a torn or damaged line
// and reads the next line. Lines may be read in any order, twice, and from several
// writers.

// MaxLine bounds the length of a line, without its end.
const MaxLine = 2*record.MaxBlob + 64

// sumDigits of the checksum (CRC-32C) begin a line; a space follows.
const sumDigits = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendLine appends a line with the value of a record.
func AppendLine(b []byte, key string, value []byte) []byte {
	c := record.Writing(32)
	lineFields(&c, &key, &value)
	at := len(b)
	b = append(b, "00000000 "...)
	b = base64.RawStdEncoding.AppendEncode(b, c.B)
	sum := strconv.AppendUint(nil, uint64(crc32.Checksum(b[at+sumDigits:], castagnoli)), 16)
	copy(b[at+sumDigits-len(sum):], sum)
	return append(b, '\n')
}

// ReadLine reads a line, without its end; ok is false for a damaged line.
func ReadLine(line []byte) (key string, value []byte, ok bool) {
	if len(line) <= sumDigits || len(line) > MaxLine {
		return "", nil, false
	}
	sum, err := strconv.ParseUint(string(line[:sumDigits]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(line[sumDigits:], castagnoli) || line[sumDigits] != ' ' {
		return "", nil, false
	}
	body, err := base64.RawStdEncoding.AppendDecode(nil, line[sumDigits+1:])
	if err != nil {
		return "", nil, false
	}
	c := record.Reading(body)
	lineFields(&c, &key, &value)
	_, known := record.ParseKey(key)
	return key, value, !c.Bad && known
}

func lineFields(c *record.Codec, key *string, value *[]byte) {
	record.Text(c, key, MaxLine)
	c.Rest(value)
}

// Mirror makes the lines of a writer. A Mirror remembers the last value written for each
// record.
type Mirror struct {
	said map[string][]byte
}

// NewMirror makes a Mirror without written values.
func NewMirror() *Mirror { return &Mirror{said: make(map[string][]byte)} }

// Urgent reports whether a client was promised that a record is kept: a new job, or more
// tasks of a job.
func (m *Mirror) Urgent(key string, value []byte) bool {
	p, ok := record.ParseKey(key)
	said, known := m.said[key]
	switch {
	case !ok || len(value) == 0:
		return false
	case p.What == 0 && known:
		old, _ := record.DecodeJob(said)
		is, err := record.DecodeJob(value)
		return err == nil && (old == nil || is.Total != old.Total || is.Closed != old.Closed || is.Void != old.Void)
	case p.What == 0 || p.What == 's' || p.What == 'p' || p.What == 'l':
		return !known || p.What == 'p'
	}
	return false
}

// Append appends the news of a record: nothing if the record has no news, or is no record
// of a job. An empty value is a removed record: the Mirror forgets the record.
func (m *Mirror) Append(b []byte, key string, value []byte) []byte {
	p, ok := record.ParseKey(key)
	old, known := m.said[key]
	switch {
	case !ok || p.What == 'k' || p.What == 't':
		return b
	case len(value) == 0:
		delete(m.said, key)
		return b
	case p.What == 'b':
		return m.appendBlock(b, key, old, value, known)
	}
	news := value
	switch p.What {
	case 0:
		news = mirrorJob(value)
	case 'z':
		news = mirrorZone(value)
	}
	if news == nil || known && bytes.Equal(old, news) {
		return b
	}
	m.said[key] = news
	b = AppendLine(b, key, news)
	if p.What == 0 || p.What == 's' {
		b = AppendLine(b, key, news) // without this line all of the job would be lost
	}
	return b
}

// mirrorJob is the part of a job's record that does not follow from other records.
func mirrorJob(v []byte) []byte {
	j, err := record.DecodeJob(v)
	if err != nil {
		return nil
	}
	j.Leader, j.Hop = record.Owner{}, 0
	if !j.Finished() {
		j.Zones = nil
	}
	return j.Encode()
}

// mirrorZone is the parts of a zone that may have been started: the parts below the
// fronts.
func mirrorZone(v []byte) []byte {
	z, err := record.DecodeZone(v)
	if err != nil {
		return nil
	}
	t := record.Zone{Spans: tried(nil, z.Spans)}
	if len(t.Spans) == 0 {
		return nil
	}
	return t.Encode()
}

// tried merges the parts of spans below their fronts into list, whose spans end at their
// fronts.
func tried(list, spans []record.Span) []record.Span {
	for _, s := range spans {
		if s.Front > s.Lo {
			list = append(list, record.Span{Lo: s.Lo, Hi: s.Front, Front: s.Front})
		}
	}
	slices.SortFunc(list, func(a, b record.Span) int { return int(a.Lo - b.Lo) })
	out := list[:0]
	for _, s := range list {
		if n := len(out); n > 0 && s.Lo <= out[n-1].Hi {
			out[n-1].Hi = max(out[n-1].Hi, s.Hi)
			out[n-1].Front = out[n-1].Hi
			continue
		}
		out = append(out, s)
	}
	return out
}

// appendBlock appends the tasks of a block that ended or were tried since.
func (m *Mirror) appendBlock(b []byte, key string, old, value []byte, known bool) []byte {
	if known && old == nil {
		return b // all of the block's tasks had ended
	}
	was, err := record.DecodeBlock(old)
	if err != nil {
		was = &record.Block{}
	}
	is, err := record.DecodeBlock(value)
	if err != nil {
		return b
	}
	m.said[key] = value
	if is.Tally().Sum() == record.BlockSize {
		m.said[key] = nil
	}
	var news record.Block
	for i, off := range is.Offs {
		t := &is.Tasks[i]
		if o := was.Find(off); o != nil && !newer(t, o) || t.State == 0 && t.Attempt == record.FirstAttempt && !t.Started && !t.Maybe {
			continue
		}
		news.Offs, news.Tasks = append(news.Offs, off), append(news.Tasks, *t)
	}
	if len(news.Offs) == 0 {
		return b
	}
	return AppendLine(b, key, news.Encode())
}

// newer reports whether t is a later state of a task than o.
func newer(t, o *record.Task) bool {
	switch {
	case o.State != 0 || t.State != 0:
		return o.State == 0
	case t.Attempt != o.Attempt:
		return t.Attempt > o.Attempt
	case t.Started != o.Started:
		return t.Started
	case t.Maybe != o.Maybe:
		return t.Maybe
	}
	return t.Crashes > o.Crashes
}

// AppendStart appends the line for a task that is about to start.
func AppendStart(b []byte, j filch.JobID, index int32, a filch.Attempt, by record.Owner) []byte {
	t := record.Block{Offs: []uint8{uint8(index % record.BlockSize)}, Tasks: []record.Task{{Attempt: a, Started: true, Owner: by}}}
	return AppendLine(b, record.KeyBlock(j, index/record.BlockSize), t.Encode())
}
