package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/filch-hpc/filch"
)

// Options are the options of [Load].
type Options struct {
	Name      string  // of the file, for messages
	TimeScale float64 // of a replay: factor of run times; 0 is 1
	SizeScale float64 // of a replay: factor of sizes; 0 is 1

	// YAML turns YAML into JSON whose values stand on the lines of the YAML, as package
	// yaml does. The error is a mistake at a line, 0 for the whole text, or a
	// [filch.Error], which Load returns as it is. Nil: Load refuses YAML.
	YAML func(text []byte) (asJSON []byte, line int, err error)
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

// YAMLFault is the output of `filchd yaml`, as JSON, for a refused text.
type YAMLFault struct {
	Line int    `json:"line"` // 0: the whole text is meant
	Text string `json:"text"`
}

// ExitYAML is the exit code of `filchd yaml` for a refused text.
const ExitYAML = 2

// Load reads a workflow file of any form, and tells the forms apart by the first bytes.
func Load(r io.Reader, o Options) (*Graph, error) {
	g, err := readFile(r, o, nil)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Check reads a file as Load does, and goes on after an error in a file of our own form.
// Errs are in the order of the text, errors of edges last; at most ProblemsMax, and more
// counts the rest. With errors, the graph has the tasks and files that could be read, and
// is good for nothing but the search for further errors; nil: there are none.
func Check(r io.Reader, o Options) (g *Graph, errs []error, more int) {
	p := &problems{}
	g, err := readFile(r, o, p)
	if err != nil {
		p.add(err)
	}
	return g, p.list, p.more
}

func readFile(r io.Reader, o Options, all *problems) (*Graph, error) {
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
		if err = fitsNative(src, text); err == nil && body[0] != '{' {
			text, err = o.fromYAML(src, text)
		}
		if err == nil {
			g, err = readNative(src, text, all)
		}
	}
	if err != nil {
		return g, err
	}
	g.scale(o)
	return g, nil
}

// fromYAML is the JSON of a YAML text.
func (o Options) fromYAML(src source, text []byte) ([]byte, error) {
	if o.YAML == nil {
		return nil, src.errorf(0, "this is no JSON and no XML, and YAML is not read here")
	}
	asJSON, line, err := o.YAML(text)
	var told *filch.Error
	switch {
	case err == nil:
		return asJSON, nil
	case errors.As(err, &told):
		return nil, err
	default:
		return nil, src.errorf(line, "%s", err.Error())
	}
}

// isWfFormat looks at the first keys of a JSON text. Other text is left to the reader of
// our own form, which has the better messages.
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

// scale applies the scales. A file that is not empty stays so: a file of one byte can
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

// size reads a size in bytes, written as a number.
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
