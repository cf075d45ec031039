package mtc

import (
	"bytes"
	"encoding/base64"
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/filch-hpc/filch"
)

// A mirror is what the records of jobs say, on a file system that outlives the
// nodes: one file for each writer, to which lines are only appended. A line is
// about one record, says what became new of it, and has a checksum, so that one
// that was torn or damaged is passed over and the next one is read. Lines may be
// read in any order, twice, and from several writers.

// MaxMirrorLine is the length of a line at most, without its end.
const MaxMirrorLine = 2*maxBlob + 64

// sumDigits of the checksum (CRC-32C) begin a line; a space follows.
const sumDigits = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendMirrorLine appends the line that says that of a record.
func AppendMirrorLine(b []byte, key string, value []byte) []byte {
	var w writer
	w.string(key)
	w.b = append(w.b, value...)
	at := len(b)
	b = append(b, "00000000 "...)
	b = base64.RawStdEncoding.AppendEncode(b, w.b)
	sum := strconv.AppendUint(nil, uint64(crc32.Checksum(b[at+sumDigits:], castagnoli)), 16)
	copy(b[at+sumDigits-len(sum):], sum)
	return append(b, '\n')
}

// MirrorLine reads a line, without its end; ok is false for a damaged one.
func MirrorLine(line []byte) (key string, value []byte, ok bool) {
	if len(line) <= sumDigits || len(line) > MaxMirrorLine {
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
	r := reader{b: body}
	key = string(r.view(len(body)))
	_, known := parseKey(key)
	return key, r.b, !r.bad && known
}

// Mirror makes the lines of one writer. It remembers what it said of each
// record.
type Mirror struct {
	said map[string][]byte
}

// NewMirror makes a Mirror that has said nothing.
func NewMirror() *Mirror { return &Mirror{said: make(map[string][]byte)} }

// Urgent reports whether a record says what a client was told that it is kept:
// a job, or more tasks of it.
func (m *Mirror) Urgent(key string, value []byte) bool {
	p, ok := parseKey(key)
	said, known := m.said[key]
	switch {
	case !ok || len(value) == 0:
		return false
	case p.what == 0 && known:
		old, _ := DecodeJob(said)
		is, err := DecodeJob(value)
		return err == nil && (old == nil || is.Total != old.Total || is.Closed != old.Closed || is.Void != old.Void)
	case p.what == 0 || p.what == 's' || p.what == 'p':
		return !known || p.what == 'p'
	}
	return false
}

// Append appends what a record says that was not said before; nothing when
// nothing is new, or when the record is none of a job. An empty value is a
// record that was removed: it is forgotten.
func (m *Mirror) Append(b []byte, key string, value []byte) []byte {
	p, ok := parseKey(key)
	old, known := m.said[key]
	switch {
	case !ok || p.what == 'k' || p.what == 't':
		return b
	case len(value) == 0:
		delete(m.said, key)
		return b
	case p.what == 'b':
		return m.appendBlock(b, key, old, value, known)
	}
	news := value
	switch p.what {
	case 0:
		news = mirrorJob(value)
	case 'z':
		news = mirrorZone(value)
	}
	if news == nil || known && bytes.Equal(old, news) {
		return b
	}
	m.said[key] = news
	b = AppendMirrorLine(b, key, news)
	if p.what == 0 || p.what == 's' {
		b = AppendMirrorLine(b, key, news) // without it all of the job would be lost
	}
	return b
}

// mirrorJob is what of a job's record does not follow from others.
func mirrorJob(v []byte) []byte {
	j, err := DecodeJob(v)
	if err != nil {
		return nil
	}
	j.Steward, j.Hop = Owner{}, 0
	if !j.Finished() {
		j.Zones = nil
	}
	return j.Encode()
}

// mirrorZone is what of a zone may have been started: its fronts.
func mirrorZone(v []byte) []byte {
	z, err := DecodeZone(v)
	if err != nil {
		return nil
	}
	t := Zone{Spans: tried(nil, z.Spans)}
	if len(t.Spans) == 0 {
		return nil
	}
	return t.Encode()
}

// tried joins to a list of spans, which begin and end with their front, those
// parts of others that are below theirs.
func tried(list, spans []Span) []Span {
	for _, s := range spans {
		if s.Front > s.Lo {
			list = append(list, Span{Lo: s.Lo, Hi: s.Front, Front: s.Front})
		}
	}
	slices.SortFunc(list, func(a, b Span) int { return int(a.Lo - b.Lo) })
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

// appendBlock says which tasks of a block ended or were tried since.
func (m *Mirror) appendBlock(b []byte, key string, old, value []byte, known bool) []byte {
	if known && old == nil {
		return b // all of them had ended
	}
	was, err := DecodeBlock(old)
	if err != nil {
		was = &Block{}
	}
	is, err := DecodeBlock(value)
	if err != nil {
		return b
	}
	m.said[key] = value
	if is.Tally().Sum() == BlockSize {
		m.said[key] = nil
	}
	var news Block
	for i, off := range is.Offs {
		t := &is.Tasks[i]
		if o := was.Find(off); o != nil && !t.newer(o) || t.State == 0 && t.Attempt == firstAttempt && !t.Started && !t.Maybe {
			continue
		}
		news.Offs, news.Tasks = append(news.Offs, off), append(news.Tasks, *t)
	}
	if len(news.Offs) == 0 {
		return b
	}
	return AppendMirrorLine(b, key, news.Encode())
}

// newer reports whether t says more of a task than o.
func (t *Task) newer(o *Task) bool {
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

// MirrorStart is the line that says that a task is about to be started.
func MirrorStart(b []byte, j filch.JobID, index int32, a filch.Attempt, by Owner) []byte {
	t := Block{Offs: []uint8{uint8(index % BlockSize)}, Tasks: []Task{{Attempt: a, Started: true, Owner: by}}}
	return AppendMirrorLine(b, KeyBlock(j, index/BlockSize), t.Encode())
}
