package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
)

// track is a row of the trace.
type track struct {
	node int32
	lane int32 // of a node: a slot from 0, from laneOthers on a row of spans without a known slot, or one of the lanes below
}

// The lanes of a node that are no slots.
const (
	laneSteals  = -1
	laneJob     = -2
	laneCounter = -3 // tasks that run
	laneFiles   = -4
)

// laneName returns the name of a lane.
func laneName(lane int32) string {
	switch lane {
	case laneSteals:
		return "steals"
	case laneJob:
		return "job"
	case laneCounter:
		return "running tasks"
	case laneFiles:
		return "files"
	}
	if lane >= laneOthers {
		return "slot not known " + strconv.Itoa(int(lane-laneOthers+1))
	}
	return "slot " + strconv.Itoa(int(lane))
}

// arg is a detail of a slice.
type arg struct {
	key  string
	text string
	num  int64 // without a text
}

// sink is a file format. The times are Unix nanoseconds. A track is declared before its
// first slice, and a node before its tracks.
type sink interface {
	node(node int32, name string)
	declare(t track)
	// slice writes a slice; slices of a track do not overlap, but for nested ones. A flow
	// leads from the slice that begins the flow to the slice that ends the flow; 0 is none.
	slice(t track, begin, end int64, name string, args []arg, from, to uint64)
	count(t track, at int64, n int64)
	end() error
}

// chrome writes Chrome's JSON: an array of events, one a line. The times count from start:
// a reader may take a time for a float, which has 53 bits.
type chrome struct {
	out   *bufio.Writer
	start int64
	any   bool
	line  []byte
}

func newChrome(out *bufio.Writer, start int64) *chrome {
	_, _ = fmt.Fprintf(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"start_unix_ns\":\"%d\"},\"traceEvents\":[\n", start)
	return &chrome{out: out, start: start}
}

// begin begins an event of a phase.
func (c *chrome) begin(phase string, t track, name string) {
	c.line = c.line[:0]
	if c.any {
		c.line = append(c.line, ",\n"...)
	}
	c.any = true
	c.line = append(c.line, `{"ph":"`...)
	c.line = append(c.line, phase...)
	c.line = append(c.line, `","pid":`...)
	c.line = strconv.AppendInt(c.line, int64(t.node)+1, 10)
	c.line = append(c.line, `,"tid":`...)
	c.line = strconv.AppendInt(c.line, tid(t), 10)
	c.line = append(c.line, `,"name":`...)
	c.line = appendText(c.line, name)
}

// tid is the number of a thread, in the order in which the rows are shown.
func tid(t track) int64 {
	if t.lane >= 0 {
		return int64(t.lane) + 10
	}
	return int64(-t.lane)
}

// appendText appends a text as JSON.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			if err != nil {
				text = []byte(`""`)
			}
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendTime appends a time or a duration in microseconds.
func appendTime(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1000, 10)
	rest := ns % 1000
	return append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}

func (c *chrome) finish() {
	c.line = append(c.line, '}')
	_, _ = c.out.Write(c.line) // the writer remembers the error until Flush
}

func (c *chrome) at(ns int64) {
	c.line = append(c.line, `,"ts":`...)
	c.line = appendTime(c.line, ns-c.start)
}

func (c *chrome) meta(t track, what, name string) {
	c.begin("M", t, what)
	c.line = append(c.line, `,"args":{"name":`...)
	c.line = appendText(c.line, name)
	c.line = append(c.line, '}')
	c.finish()
}

func (c *chrome) node(node int32, name string) { c.meta(track{node, 0}, "process_name", name) }

func (c *chrome) declare(t track) {
	if t.lane != laneCounter {
		c.meta(t, "thread_name", laneName(t.lane))
	}
}

func (c *chrome) slice(t track, begin, end int64, name string, args []arg, from, to uint64) {
	c.begin("X", t, name)
	c.at(begin)
	c.line = append(c.line, `,"dur":`...)
	c.line = appendTime(c.line, end-begin)
	if len(args) > 0 {
		c.line = append(c.line, `,"args":{`...)
		for i := range args {
			if i > 0 {
				c.line = append(c.line, ',')
			}
			c.line = append(appendText(c.line, args[i].key), ':')
			if args[i].text != "" {
				c.line = appendText(c.line, args[i].text)
			} else {
				c.line = strconv.AppendInt(c.line, args[i].num, 10)
			}
		}
		c.line = append(c.line, '}')
	}
	c.finish()
	if from != 0 {
		c.flow("s", t, begin, from)
	}
	if to != 0 {
		c.flow("f", t, begin, to)
	}
}

func (c *chrome) flow(phase string, t track, at int64, id uint64) {
	c.begin(phase, t, "move")
	c.at(at)
	c.line = append(c.line, `,"cat":"steal","id":`...)
	c.line = strconv.AppendUint(c.line, id, 10)
	if phase == "f" {
		c.line = append(c.line, `,"bp":"e"`...)
	}
	c.finish()
}

func (c *chrome) count(t track, at int64, n int64) {
	c.begin("C", t, laneName(t.lane))
	c.at(at)
	c.line = append(c.line, `,"args":{"n":`...)
	c.line = strconv.AppendInt(c.line, n, 10)
	c.line = append(c.line, '}')
	c.finish()
}

func (c *chrome) end() error {
	_, _ = c.out.WriteString("\n]}\n")
	return c.out.Flush()
}
