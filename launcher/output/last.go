package output

import (
	"bytes"
	"strings"
)

// lastBytes bounds a line of [LastLines]; of a longer line, the beginning is kept.
const lastBytes = 512

// LastLines returns the last line on standard error, that is not blank, of the last
// attempt of each wanted task in a folder of segments; no entry for a task without such
// a line. Unreadable blocks are passed over.
func LastLines(dir string, want func(task int32) bool) (map[int32]string, error) {
	type last struct {
		attempt int32
		line    string
	}
	found := map[int32]last{}
	_, err := ReadSegments(dir, func(p Printed) bool { return p.Stream == 2 && want(p.Index) }, func(p Printed) bool {
		was := found[p.Index]
		if p.Attempt < was.attempt {
			return true
		}
		if line := lastLine(p.Data); line != "" || p.Attempt > was.attempt {
			found[p.Index] = last{p.Attempt, line}
		}
		return true
	})
	lines := make(map[int32]string, len(found))
	for task, l := range found {
		if l.line != "" {
			lines[task] = l.line
		}
	}
	return lines, err
}

// lastLine is the last line that is not blank, without its end; "" if there is none.
func lastLine(b []byte) string {
	b = bytes.TrimRight(b, " \t\r\n")
	b = b[bytes.LastIndexByte(b, '\n')+1:]
	if i := bytes.LastIndexByte(b, '\r'); i >= 0 { // a line that the program wrote over
		b = b[i+1:]
	}
	return strings.ToValidUTF8(string(b[:min(len(b), lastBytes)]), "\ufffd")
}
