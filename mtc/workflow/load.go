package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"
)

// Options says how [Load] reads.
type Options struct {
	Name      string  // of the file, for messages
	TimeScale float64 // of a replay: run times are multiplied by it; 0 is 1
	SizeScale float64 // of a replay: sizes are multiplied by it; 0 is 1
}

func (o Options) check() error {
	for _, s := range []struct {
		name  string
		value float64
	}{{"time", o.TimeScale}, {"size", o.SizeScale}} {
		if math.IsNaN(s.value) || s.value < 0 || s.value > ScaleMax {
			return source{o.Name}.errorf(0, "the %s scale is %v; it is above 0 and at most %d", s.name, s.value, ScaleMax)
		}
	}
	return nil
}

// Load reads a workflow file of whatever form: it tells them apart by their
// first bytes.
func Load(r io.Reader, o Options) (*Graph, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	src := source{o.Name}
	text, err := io.ReadAll(io.LimitReader(r, InputMax+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", o.Name, err)
	}
	if len(text) > InputMax {
		return nil, src.errorf(0, "it has more than %s", Bytes(InputMax))
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	body := bytes.TrimLeft(text, " \t\r\n")
	var g *Graph
	switch {
	case len(body) == 0:
		return nil, src.errorf(0, "it is empty")
	case body[0] == '<':
		g, err = readDAX(src, text)
	case body[0] == '{' && isWfFormat(body):
		g, err = readWfFormat(src, text)
	default:
		g, err = readNative(src, text, body[0] == '{')
	}
	if err != nil {
		return nil, err
	}
	g.scale(o)
	return g, nil
}

// isWfFormat looks at the first keys of a JSON text. What is no JSON is left to
// the reader of our own form, whose messages are the better ones.
func isWfFormat(text []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return false
		}
		switch key {
		case "workflow", "schemaVersion", "runtimeSystem", "wms":
			return true
		case "filch", "tasks":
			return false
		}
		var skip json.RawMessage
		if dec.Decode(&skip) != nil {
			return false
		}
	}
	return false
}

// scale applies the scales. What is not empty stays so: a file of one byte can
// still be checked.
func (g *Graph) scale(o Options) {
	if !g.Replay {
		return
	}
	if s := o.TimeScale; s != 0 && s != 1 {
		for i := range g.Tasks {
			t := &g.Tasks[i]
			t.Cost = time.Duration(min(float64(t.Cost)*s, CostMax*1e9))
		}
	}
	if s := o.SizeScale; s != 0 && s != 1 {
		for i := range g.Files {
			f := &g.Files[i]
			if f.Size > 0 {
				f.Size = max(1, int64(min(math.Round(float64(f.Size)*s), float64(SizeMax))))
			}
		}
	}
}

// cost reads a run time in seconds.
func (b *builder) cost(t int32, seconds float64, line int) error {
	task := &b.g.Tasks[t]
	switch {
	case math.IsNaN(seconds) || math.IsInf(seconds, 0) || seconds > CostMax || seconds < -CostMax:
		return b.src.errorf(line, "task %s: a run time of %v seconds makes no sense: at most %d", quote(task.Name), seconds, CostMax)
	case seconds < 0:
		b.traps.add(TrapTimeBelow, "%s: %v s", task.Name, seconds)
	case seconds == 0:
		b.traps.add(TrapNoTime, "%s", task.Name)
	default:
		task.Cost = time.Duration(math.Round(seconds * 1e9))
	}
	return nil
}

// size reads a size in bytes, which stands in the text as a number.
func (b *builder) size(task, file string, n json.Number, line int) (int64, error) {
	if i, err := n.Int64(); err == nil && i <= SizeMax {
		if i < 0 {
			b.traps.add(TrapBelowZero, "%s: %d", file, i)
		}
		return max(i, 0), nil
	}
	f, err := n.Float64()
	switch {
	case err != nil || math.IsNaN(f) || f > float64(SizeMax) || f < -float64(SizeMax):
		return 0, b.src.errorf(line, "task %s: the file %s has a size of %s bytes, which makes no sense: at most %d",
			quote(task), quote(file), quote(n.String()), SizeMax)
	case f < 0:
		b.traps.add(TrapBelowZero, "%s: %v", file, f)
	}
	return max(int64(f), 0), nil
}
