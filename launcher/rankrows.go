package launcher

import (
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/varint"
)

// Bounds of the rows that a record of a job has. A row takes 4 to 8 bytes: like ranks have like
// rows, and a row is the difference to the row before.
const (
	// MaxRankRows is how many ranks have rows; the further ranks count in the sum.
	MaxRankRows = 1 << 14
	// maxRowBytes bounds the rows of a record; more rows are left out as a whole. In base64
	// they fit into a value of the store beside the rest of the record.
	maxRowBytes = 96 << 10
	// exactRows is how many rows have times to the microsecond. More rows have times to the
	// millisecond.
	exactRows = 256
)

// RankRow is the end of a rank, and what the rank used.
type RankRow struct {
	Ended bool
	State filch.State
	Code  int32
	Node  int32 // the index of the node in the launch
	Usage filch.Usage
}

// RankRows is the ends of the ranks of an attempt, as they come to the origin, and the sum of
// what the ranks used.
type RankRows struct {
	Sum   filch.Usage
	parts []filch.Usage // the sums of the participants
	rows  []RankRow     // by rank, at most MaxRankRows
}

// Add adds the end of a rank of a participant.
func (u *RankRows) Add(part int, e *RankEnd, s filch.State) {
	u.addSum(part, e.Usage)
	u.set(e.Rank, RankRow{Ended: true, State: s, Code: e.Kind.Code(e.Code), Usage: e.Usage})
}

func (u *RankRows) addSum(part int, v filch.Usage) {
	u.Sum = u.Sum.Plus(v)
	if more := part + 1 - len(u.parts); more > 0 {
		u.parts = append(u.parts, make([]filch.Usage, more)...)
	}
	u.parts[part] = u.parts[part].Plus(v)
}

func (u *RankRows) set(rank filch.Rank, row RankRow) {
	if rank < 0 || rank >= MaxRankRows {
		return
	}
	if more := int(rank) + 1 - len(u.rows); more > 0 {
		u.rows = append(u.rows, make([]RankRow, more)...)
	}
	u.rows[rank] = row
}

// Keep puts the ends of a participant into the record of the participant.
func (u *RankRows) Keep(p *ParticipantRecord, of []Span) {
	if int(p.Index) < len(u.parts) {
		p.Usage = u.parts[p.Index]
	}
	var list []RankRow
	for _, s := range of {
		for r := s.First; r < s.First+filch.Rank(s.Count) && int(r) < len(u.rows); r++ {
			list = append(list, u.rows[r])
		}
	}
	p.Rows = encodeRows(list)
}

// Restore takes the ends out of the record of a participant.
func (u *RankRows) Restore(p *ParticipantRecord, of []Span) {
	u.addSum(int(p.Index), p.Usage)
	list, k := ReadRankRows(p.Rows), 0
	for _, s := range of {
		for r := s.First; r < s.First+filch.Rank(s.Count) && k < len(list); r++ {
			if list[k].Ended {
				u.set(r, list[k])
			}
			k++
		}
	}
}

// Encode is the rows of an attempt on nodes for a [JobInfo], also of ranks without an end: nil
// if there are no ranks, or if the rows are too long.
func (u *RankRows) Encode(nodes []NodeRanks) []byte {
	list := slices.Clone(u.rows)
	for i := range nodes {
		for _, s := range nodes[i].Ranks {
			end := min(int(s.First)+int(s.Count), MaxRankRows)
			if more := end - len(list); more > 0 {
				list = append(list, make([]RankRow, more)...)
			}
			for r := int(s.First); r < end; r++ {
				list[r].Node = int32(i)
			}
		}
	}
	return encodeRows(list)
}

func encodeRows(list []RankRow) []byte {
	if len(list) == 0 {
		return nil
	}
	c := varint.Encoder(nil)
	layoutRows(&c, slices.Clone(list))
	if len(c.B) > maxRowBytes {
		return nil
	}
	return c.B
}

// ReadRankRows reads the rows of a [JobInfo], by rank; none if there are none or they make no
// sense.
func ReadRankRows(b []byte) []RankRow {
	c := varint.Decoder(b)
	list := layoutRows(&c, nil)
	if c.Bad {
		return nil
	}
	return list
}

// layoutRows visits rows: their number, and of each row the state with the code, 0 without an
// end, and the differences of the other fields to the row before.
func layoutRows(c *varint.Coder, list []RankRow) []RankRow {
	n := c.Count(len(list), 2)
	if c.Require(n <= MaxRankRows); c.Bad {
		return nil
	}
	if !c.Encodes {
		list = make([]RankRow, n)
	}
	unit := time.Microsecond
	if n > exactRows {
		unit = time.Millisecond
	}
	var before [4]int64
	differ := func(i int, v int64) int64 {
		before[i] += c.Signed(v - before[i])
		return before[i]
	}
	for i := range list {
		r, head := &list[i], uint64(0)
		if r.Ended {
			head = uint64(r.State) + 1 | uint64(uint32(r.Code))<<4
		}
		head = c.UpTo(head, math.MaxUint32<<4|0xf)
		r.Node = int32(differ(0, int64(r.Node)))
		if head == 0 {
			continue
		}
		c.Require(head&0xf != 0 && head&0xf <= uint64(filch.Cancelled)+1)
		r.Ended, r.State, r.Code = true, filch.State(head&0xf-1), int32(uint32(head>>4))
		u := &r.Usage
		u.User = time.Duration(differ(1, int64(u.User/unit))) * unit
		u.System = time.Duration(differ(2, int64(u.System/unit))) * unit
		peak := u.PeakBytes >> 10 << 1
		if u.AtMost {
			peak++
		}
		peak = differ(3, peak)
		u.PeakBytes, u.AtMost = peak>>1<<10, peak&1 != 0
	}
	return list
}
