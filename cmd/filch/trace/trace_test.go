package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

// drawn is a trace as read back: what a viewer would show.
type drawn struct {
	nodes  map[int64]string // by pid
	rows   map[string]bool  // "node/row"
	slices []drawnSlice
	counts []string // "node at n"
	flows  map[uint64][]string
}

type drawnSlice struct {
	row        string
	begin, end int64 // from the start, in ns
	name       string
	args       string
}

func (d *drawn) sort() {
	slices.SortStableFunc(d.slices, func(a, b drawnSlice) int {
		if c := strings.Compare(a.row, b.row); c != 0 {
			return c
		}
		if a.begin != b.begin {
			return int(a.begin - b.begin)
		}
		return int(b.end - a.end)
	})
}

// readChrome reads a file for Chrome.
func readChrome(t *testing.T, b []byte) *drawn {
	t.Helper()
	var f struct {
		TraceEvents []struct {
			Ph, Name string
			PID, TID int64
			Ts, Dur  json.Number
			ID       uint64
			Args     map[string]any
		}
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&f); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	d := &drawn{nodes: map[int64]string{}, rows: map[string]bool{}, flows: map[uint64][]string{}}
	rows := map[[2]int64]string{}
	ns := func(n json.Number) int64 {
		v, err := n.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return int64(math.Round(v * 1000))
	}
	for _, e := range f.TraceEvents {
		row := rows[[2]int64{e.PID, e.TID}]
		switch e.Ph {
		case "M":
			name, _ := e.Args["name"].(string)
			if e.Name == "process_name" {
				d.nodes[e.PID] = name
				continue
			}
			rows[[2]int64{e.PID, e.TID}] = d.nodes[e.PID] + "/" + name
			d.rows[d.nodes[e.PID]+"/"+name] = true
		case "X":
			if row == "" {
				t.Errorf("%+v has no row", e)
			}
			var args strings.Builder
			for _, k := range slices.Sorted(func(yield func(string) bool) {
				for k := range e.Args {
					if !yield(k) {
						return
					}
				}
			}) {
				fmt.Fprintf(&args, " %s=%v", k, e.Args[k])
			}
			d.slices = append(d.slices, drawnSlice{row, ns(e.Ts), ns(e.Ts) + ns(e.Dur), e.Name, args.String()})
		case "C":
			d.counts = append(d.counts, fmt.Sprintf("%s %d %v", d.nodes[e.PID], ns(e.Ts), e.Args["n"]))
		case "s", "f":
			d.flows[e.ID] = append(d.flows[e.ID], e.Ph+" "+row)
		default:
			t.Errorf("unknown phase %s", e.Ph)
		}
	}
	d.sort()
	return d
}

// field is a field of a message of protobuf.
type field struct {
	number int
	num    uint64
	bytes  []byte
}

// fields reads a message.
func fields(b []byte) (list []field, err error) {
	for len(b) > 0 {
		head, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, io.ErrUnexpectedEOF
		}
		b = b[n:]
		f := field{number: int(head >> 3)}
		switch head & 7 {
		case 0:
			if f.num, n = binary.Uvarint(b); n <= 0 {
				return nil, io.ErrUnexpectedEOF
			}
			b = b[n:]
		case 1:
			if len(b) < 8 {
				return nil, io.ErrUnexpectedEOF
			}
			f.num, b = binary.LittleEndian.Uint64(b), b[8:]
		case 2:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return nil, io.ErrUnexpectedEOF
			}
			f.bytes, b = b[n:n+int(size)], b[n+int(size):]
		default:
			return nil, fmt.Errorf("wire type %d", head&7)
		}
		list = append(list, f)
	}
	return list, nil
}

// one returns a field of a message.
func one(list []field, number int) (f field) {
	for _, f := range list {
		if f.number == number {
			return f
		}
	}
	return f
}

// readPerfetto reads a file of Perfetto's packets, with start as the time 0.
func readPerfetto(t *testing.T, b []byte, start int64) *drawn {
	t.Helper()
	message := func(b []byte) []field {
		list, err := fields(b)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	d := &drawn{nodes: map[int64]string{}, rows: map[string]bool{}, flows: map[uint64][]string{}}
	rows, byUUID := map[uint64]string{}, map[uint64]string{}
	open := map[string][]drawnSlice{}
	type at struct {
		time int64
		list []field
	}
	var all []at
	for _, packet := range message(b) {
		if packet.number != tracePacket {
			t.Fatalf("the trace has a field %d", packet.number)
		}
		p := message(packet.bytes)
		if one(p, packetSequence).num != sequence {
			t.Error("a packet without a sequence")
		}
		time := int64(one(p, packetTimestamp).num) - start
		if desc := one(p, packetDescriptor).bytes; desc != nil {
			m := message(desc)
			id := one(m, descriptorUUID).num
			if process := one(m, descriptorProcess).bytes; process != nil {
				name := string(one(message(process), processName).bytes)
				byUUID[id], d.nodes[int64(one(message(process), processPID).num)] = name, name
				continue
			}
			name := string(one(m, descriptorName).bytes)
			if thread := one(m, descriptorThread).bytes; thread != nil {
				name = string(one(message(thread), threadName).bytes)
			}
			rows[id] = byUUID[one(m, descriptorParent).num] + "/" + name
			if !strings.HasSuffix(rows[id], laneName(laneCounter)) {
				d.rows[rows[id]] = true
			}
			continue
		}
		all = append(all, at{time, message(one(p, packetEvent).bytes)})
	}
	slices.SortStableFunc(all, func(a, b at) int { return int(a.time - b.time) }) // as a viewer does
	for _, e := range all {
		row := rows[one(e.list, eventTrack).num]
		if row == "" {
			t.Errorf("an event has no row")
		}
		switch one(e.list, eventType).num {
		case typeBegin:
			s := drawnSlice{row: row, begin: e.time, name: string(one(e.list, eventName).bytes)}
			var args []string
			for _, f := range e.list {
				switch f.number {
				case eventAnnotation:
					a := message(f.bytes)
					if text := one(a, annotationText).bytes; text != nil {
						args = append(args, fmt.Sprintf(" %s=%s", one(a, annotationName).bytes, text))
					} else {
						args = append(args, fmt.Sprintf(" %s=%d", one(a, annotationName).bytes, int64(one(a, annotationInt).num)))
					}
				case eventFlow:
					d.flows[f.num] = append(d.flows[f.num], "s "+row)
				case eventFlowEnd:
					d.flows[f.num] = append(d.flows[f.num], "f "+row)
				}
			}
			slices.Sort(args)
			s.args = strings.Join(args, "")
			open[row] = append(open[row], s)
		case typeEnd:
			if len(open[row]) == 0 {
				t.Fatalf("a slice of %s ends at %d and has not begun", row, e.time)
			}
			s := open[row][len(open[row])-1]
			open[row] = open[row][:len(open[row])-1]
			s.end = e.time
			d.slices = append(d.slices, s)
		case typeCounter:
			node, _, _ := strings.Cut(row, "/")
			d.counts = append(d.counts, fmt.Sprintf("%s %d %d", node, e.time, one(e.list, eventCounter).num))
		}
	}
	for row, left := range open {
		if len(left) > 0 {
			t.Errorf("%d slices of %s do not end", len(left), row)
		}
	}
	d.sort()
	return d
}

const start = int64(1_700_000_000_000_000_000)

// draw draws spans and a steal in a format.
func draw(t *testing.T, make func(*bufio.Writer) sink, nodes []filch.NodeName, spans []span, memory int) []byte {
	t.Helper()
	var b bytes.Buffer
	p := &painter{out: make(bufio.NewWriter(&b)), job: 7, step: 1}
	s := newSorter()
	s.memory = memory
	defer s.close()
	for _, n := range nodes {
		p.row(n)
	}
	for i := range spans {
		if err := s.add(&spans[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.each(p.span); err != nil {
		t.Fatal(err)
	}
	p.close()
	p.steal("n2", "n1", start+5000, 3)
	if err := p.out.end(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func asChrome(w *bufio.Writer) sink   { return newChrome(w, start) }
func asPerfetto(w *bufio.Writer) sink { return newPerfetto(w, start) }

func TestBothFormatsShowTheSame(t *testing.T) {
	hostile := filch.NodeName("n\"1<script>é")
	spans := []span{
		{Begin: start + 2000, End: start + 9000, Task: 2, Try: 2, Code: -9, State: filch.Killed, Queued: 5e6, Slot: 5, Rank: noRank},
		{Begin: start, End: start + 3000, Task: 0, Try: 1, State: filch.OK, Slot: 3, Rank: noRank},
		{Begin: start + 3000, End: start + 9000, Task: 1, Try: 1, State: filch.OK, In: 1000, Out: 2000, Slot: 3, Rank: noRank},
		{Begin: start + 1000, End: start + 1000, Task: 3, Try: 1, State: filch.OK, Node: 1, Slot: anySlot, Rank: noRank},
		{Begin: start + 1000, End: start + 8000, Task: 4, Try: 1, State: filch.OK, Node: 1, Slot: 0, Slots: 2, Rank: 1, Launch: 500, Wire: 300},
		{Begin: start + 1000, End: start + 8000, Task: 4, Try: 1, State: filch.OK, Node: 1, Slot: 1, Slots: 2, Rank: 1, Launch: 500, Further: true},
	}
	nodes := []filch.NodeName{hostile, "n2"}
	a := readChrome(t, draw(t, asChrome, nodes, spans, 2))
	b := readPerfetto(t, draw(t, asPerfetto, nodes, spans, 2), start)
	n1 := string(hostile)
	want := []drawnSlice{
		{n1 + "/slot 3", 0, 3000, "7.0", " state=ok"},
		{n1 + "/slot 3", 3000, 9000, "7.1", " state=ok"},
		{n1 + "/slot 3", 3000, 4000, "staging in", ""},
		{n1 + "/slot 3", 7000, 9000, "staging out", ""},
		{n1 + "/slot 5", 2000, 9000, "7.2", " exit_code=-9 queued_ms=5 state=killed try=2"},
		{"n1/steals", 5000, 6000, "gives 3 tasks to n2", ""},
		{"n2/slot 0", 1000, 8000, "7.4 rank 1", " slots=2 state=ok"},
		{"n2/slot 0", 1000, 1500, "launch", ""},
		{"n2/slot 0", 1500, 1800, "wire-up", ""},
		{"n2/slot 0", 1800, 8000, "running", ""},
		{"n2/slot 1", 1000, 8000, "7.4 rank 1", " slots=2 state=ok"},
		{"n2/slot 1", 1000, 1500, "launch", ""},
		{"n2/slot 1", 1500, 8000, "running", ""},
		{"n2/slot not known 1", 1000, 1000, "7.3", " state=ok"},
		{"n2/steals", 6000, 7000, "takes 3 tasks of n1", ""},
	}
	slices.SortStableFunc(want, func(a, b drawnSlice) int { return strings.Compare(a.row, b.row) })
	for name, d := range map[string]*drawn{"chrome": a, "perfetto": b} {
		if !slices.Equal(d.slices, want) {
			t.Errorf("%s: got %+v, want %+v", name, d.slices, want)
		}
		if got := d.flows[1]; !slices.Equal(got, []string{"s n1/steals", "f n2/steals"}) {
			t.Errorf("%s: the steal goes %v", name, got)
		}
		slices.Sort(d.counts)
	}
	if !slices.Equal(a.counts, b.counts) || len(a.counts) != 6 {
		t.Errorf("counts %v and %v", a.counts, b.counts)
	}
	if !reflect.DeepEqual(a.rows, b.rows) {
		t.Errorf("rows %v and %v", a.rows, b.rows)
	}
}

// Whatever ran when, slices of a row do not overlap, and no row is there in vain.
func TestRowsAreSlots(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var spans []span
	const slots = 5
	var free [3][slots]int64
	known := func(i, slot int) int32 { // of most spans
		if i%4 == 0 {
			return anySlot
		}
		return int32(slot)
	}
	for i := range 3000 {
		node, slot := r.IntN(3), r.IntN(slots)
		begin := free[node][slot] + r.Int64N(50)
		end := begin + r.Int64N(1000)
		free[node][slot] = end
		spans = append(spans, span{Begin: start + begin, End: start + end, Task: int32(i), Try: 1, Node: int32(node), State: filch.OK, Slot: known(i, slot), Rank: noRank})
	}
	r.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
	d := readPerfetto(t, draw(t, asPerfetto, []filch.NodeName{"n1", "n2", "n3"}, spans, 100), start)
	last, named := map[string]int64{}, map[string]bool{}
	n := 0
	for _, s := range d.slices {
		if !strings.Contains(s.row, "slot") {
			continue
		}
		n++
		if !strings.Contains(s.row, "not known") {
			named[s.row] = true
		}
		if s.begin < last[s.row] {
			t.Fatalf("%+v begins before the end of another, %d", s, last[s.row])
		}
		last[s.row] = s.end
	}
	if n != len(spans) || len(named) != 3*slots || len(last) > 2*3*slots {
		t.Errorf("%d slices on %d rows of slots, %d in all, want %d on %d, at most twice as many in all", n, len(named), len(last), len(spans), 3*slots)
	}
}

// A trace takes constant memory, and the file has every span in its order.
func TestManySpansTakeConstantMemory(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 300_000
	}
	s := newSorter()
	defer s.close()
	r := rand.New(rand.NewPCG(1, 2))
	p := &painter{job: 7, step: 1e9}
	p.out = newPerfetto(bufio.NewWriter(io.Discard), start)
	for i := range 64 {
		p.row(filch.NodeName(fmt.Sprintf("n%d", i+1)))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		begin := start + r.Int64N(1e12)
		if err := s.add(&span{Begin: begin, End: begin + r.Int64N(1e8), Task: int32(i), Node: int32(i % 64), Slot: int32(i % 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	last, count := int64(0), 0
	err := s.each(func(sp *span) error {
		if sp.Begin < last {
			return fmt.Errorf("span %d begins before the one before", count)
		}
		last, count = sp.Begin, count+1
		return p.span(sp)
	})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if err != nil || count != n {
		t.Errorf("%d of %d spans: %v", count, n, err)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 12<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// A disk that is full is an error, not half a trace that looks whole.
func TestAFullDiskIsAnError(t *testing.T) {
	for name, format := range map[string]func(*bufio.Writer) sink{"chrome": asChrome, "perfetto": asPerfetto} {
		out := format(bufio.NewWriterSize(full{}, 16))
		p := &painter{out: out, job: 1, step: 1}
		p.row("n1")
		_ = p.span(&span{Begin: start, End: start + 1})
		p.close()
		if out.end() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left") }

func FuzzChromeTexts(f *testing.F) {
	f.Add("a\"b", "n1")
	f.Fuzz(func(t *testing.T, node, key string) {
		var b bytes.Buffer
		w := bufio.NewWriter(&b)
		c := newChrome(w, 0)
		c.node(0, node)
		c.declare(track{0, 0})
		c.slice(track{0, 0}, -5, 1<<60, node, []arg{{key: key, text: node}, {key: node, num: -1}}, 1, 2)
		if err := c.end(); err != nil || !json.Valid(b.Bytes()) {
			t.Errorf("%v: %s", err, b.Bytes())
		}
	})
}

func FuzzSpan(f *testing.F) {
	f.Add((&span{Begin: 1, End: 2, Queued: 3, In: 4, Out: 5, Launch: 6, Wire: 14, Task: 7, Try: 8, Code: -9, Node: 10, Slot: 11, Rank: 12, Slots: 13, State: filch.Lost, Further: true}).appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != spanBytes || b[spanBytes-1] > 1 {
			return
		}
		var s span
		s.read(b)
		if got := s.appendTo(nil); !bytes.Equal(got, b) {
			t.Errorf("%x becomes %x", b, got)
		}
	})
}

func BenchmarkSpan(b *testing.B) {
	p := &painter{job: 7, step: 1e9, out: newPerfetto(bufio.NewWriter(io.Discard), start)}
	p.row("n1")
	for b.Loop() {
		_ = p.span(&span{Begin: start, End: start + 5, State: filch.OK, Slot: anySlot})
		p.nodes[0].rows.others = p.nodes[0].rows.others[:0]
	}
}
