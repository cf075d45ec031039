package output

import (
	"bytes"
	"math/bits"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
)

// Limits of a [Fold].
const (
	// foldHold is how long a line waits for the other ranks.
	foldHold = 500 * time.Millisecond
	// foldBytes bounds the memory of the lines that wait.
	foldBytes = 16 << 20
	// foldRanks bounds the ranks of a line: higher ranks are not joined.
	foldRanks = 1 << 20
)

// Fold joins equal lines of many ranks or tasks into one line with a label of the ranks,
// "[0-3,5] text". A line waits until all ranks have printed the line, or for half a
// second. Lines leave in the order of their first rank.
type Fold struct {
	size   int // number of ranks; 0: unknown, so lines wait for Flush
	lines  []*foldLine
	equal  map[foldKey]*foldEqual
	held   int // bytes
	emit   func(stream uint8, line []byte) error
	buffer []byte
}

type foldKey struct {
	stream uint8
	text   string
}

// foldEqual is the waiting lines of one text, oldest first. A rank that prints the text n
// times is in n of the lines.
type foldEqual struct {
	lines []*foldLine
	gone  int         // lines that were here and have left
	taken map[int]int // lines that a rank has been in, with those gone
}

type foldLine struct {
	key   foldKey
	since time.Time
	ranks []uint64 // a bit for each rank below foldRanks
	alone int      // a higher rank, alone in its line; 0 none
	count int
}

// NewFold makes a Fold of size ranks; emit takes a line with its label, valid during the
// call.
func NewFold(size int32, emit func(stream uint8, line []byte) error) *Fold {
	return &Fold{size: int(size), equal: map[foldKey]*foldEqual{}, emit: emit}
}

// SetSize sets the number of ranks.
func (f *Fold) SetSize(size int32) { f.size = int(size) }

// Add adds a piece of a rank; every line of the piece counts as complete.
func (f *Fold) Add(now time.Time, r filch.Rank, stream uint8, piece []byte) error {
	for line := range bytes.Lines(piece) {
		f.add(now, int(r), foldKey{stream, string(bytes.TrimSuffix(line, []byte{'\n'}))})
	}
	return f.Expire(now)
}

func (f *Fold) add(now time.Time, r int, key foldKey) {
	e := f.equal[key]
	if e == nil {
		e = &foldEqual{taken: map[int]int{}}
		f.equal[key] = e
	}
	at := max(e.taken[r]-e.gone, 0)
	if r >= foldRanks {
		at = len(e.lines)
	} else {
		e.taken[r] = at + e.gone + 1
	}
	if at < len(e.lines) {
		f.held += e.lines[at].set(r)
		return
	}
	l := &foldLine{key: key, since: now}
	f.held += len(key.text) + foldLineBytes + l.set(r)
	f.lines = append(f.lines, l)
	e.lines = append(e.lines, l)
}

// foldLineBytes is about the memory of a line besides the text.
const foldLineBytes = 160

// Expire emits the lines that need to wait no more.
func (f *Fold) Expire(now time.Time) error {
	for len(f.lines) > 0 {
		l := f.lines[0]
		if f.held <= foldBytes && (f.size == 0 || l.count < f.size && now.Sub(l.since) < foldHold) {
			return nil
		}
		if err := f.first(); err != nil {
			return err
		}
	}
	return nil
}

// Flush emits all lines.
func (f *Fold) Flush() error {
	for len(f.lines) > 0 {
		if err := f.first(); err != nil {
			return err
		}
	}
	return nil
}

// Waits reports whether a line waits.
func (f *Fold) Waits() bool { return len(f.lines) > 0 }

// first emits the oldest line.
func (f *Fold) first() error {
	l := f.lines[0]
	f.lines[0] = nil
	f.lines = f.lines[1:]
	e := f.equal[l.key]
	e.lines = e.lines[1:]
	if e.gone++; len(e.lines) == 0 {
		delete(f.equal, l.key)
	}
	f.held -= len(l.key.text) + foldLineBytes + 8*len(l.ranks)
	f.buffer = append(l.label(f.buffer[:0]), l.key.text...)
	f.buffer = append(f.buffer, '\n')
	return f.emit(l.key.stream, f.buffer)
}

// set adds a rank, and returns the number of bytes that the line grew by.
func (l *foldLine) set(r int) int {
	l.count++
	if r >= foldRanks {
		l.alone = r
		return 0
	}
	grown := 0
	for r/64 >= len(l.ranks) {
		l.ranks = append(l.ranks, 0)
		grown += 8
	}
	l.ranks[r/64] |= 1 << (r % 64)
	return grown
}

// label appends "[0-3,5] ".
func (l *foldLine) label(b []byte) []byte {
	b = append(b, '[')
	begin, last := -1, -2 // no rank yet
	end := func() {
		if begin < 0 {
			return
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(begin), 10)
		if last > begin {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(last), 10)
		}
	}
	for i, word := range l.ranks {
		for ; word != 0; word &= word - 1 {
			r := 64*i + bits.TrailingZeros64(word)
			if r != last+1 {
				end()
				begin = r
			}
			last = r
		}
	}
	end()
	if l.alone > 0 {
		begin, last = l.alone, l.alone
		end()
	}
	return append(b, "] "...)
}
