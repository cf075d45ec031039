package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// EntryMax bounds the length of an entry of a JSON list.
const EntryMax = 4 << 20

var entryKeys = append([]string{"name", "run", "cwd", "stdin", "stdout", "stderr", "ranks"}, needKeys...)

// Entries reads tasks from JSON, one by one: the elements of a list, or consecutive
// values, as in a file with a value on each line. An entry is text (a line for a shell),
// a list of words, or a map with the keys of a workflow's tasks: run, name, cpus, mem,
// env and so on.
type Entries struct {
	src    source
	text   *meter
	dec    *json.Decoder
	listed bool // the entries are elements of a list
	begun  bool
	count  int
	line   int
}

// NewEntries reads entries from r; name is for messages.
func NewEntries(r io.Reader, name string) *Entries {
	m := &meter{r: r, line: 1, budget: EntryMax}
	return &Entries{src: source{name}, text: m, dec: json.NewDecoder(m)}
}

// Line is the line of the last returned entry.
func (e *Entries) Line() int { return e.line }

// At is the place of this entry, for messages.
func (e *Entries) At() string { return e.src.at(e.line) }

// Next is the next entry as a task without a graph, or io.EOF.
func (e *Entries) Next() (Task, error) {
	raw, err := e.raw()
	if err != nil {
		return Task{}, err
	}
	j := newJSONText(e.src, raw)
	j.first, j.line = e.line, e.line
	root, err := (&tree{src: e.src}).json(j, 0)
	if err != nil {
		return Task{}, err
	}
	n := &native{src: e.src}
	t := Task{Line: e.line}
	if root.shape != shapeMap {
		t.Run.Argv, _, err = n.argv(&root, fmt.Sprintf("entry %d", e.count))
		return t, err
	}
	return t, n.entry(&t, &root, e.count)
}

// NextValue is the next entry as a value for a command: text as written, other values as
// JSON without blanks.
func (e *Entries) NextValue() (string, error) {
	raw, err := e.raw()
	if err != nil {
		return "", err
	}
	value := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &value); err != nil {
			return "", e.src.errorf(e.line, "entry %d: %v", e.count, err)
		}
	} else {
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return "", e.src.errorf(e.line, "entry %d: %v", e.count, err)
		}
		value = b.String()
	}
	if len(value) > LineMax || strings.IndexByte(value, 0) >= 0 {
		return "", e.src.errorf(e.line, "entry %d has more than %d bytes, or a NUL byte", e.count, LineMax)
	}
	return value, nil
}

// raw is the text of the next entry.
func (e *Entries) raw() (json.RawMessage, error) {
	if !e.begun {
		e.begun = true
		first, err := e.text.peek()
		if err != nil {
			return nil, e.explain(err)
		}
		if e.listed = first == '['; e.listed {
			if _, err := e.dec.Token(); err != nil {
				return nil, e.explain(err)
			}
		}
	}
	e.text.budget = e.dec.InputOffset() + EntryMax
	if e.listed && !e.dec.More() {
		if _, err := e.dec.Token(); err != nil {
			return nil, e.explain(err)
		}
		return nil, e.end()
	}
	var raw json.RawMessage
	err := e.dec.Decode(&raw)
	if errors.Is(err, io.EOF) && !e.listed {
		return nil, io.EOF
	}
	if err != nil {
		return nil, e.explain(err)
	}
	e.count++
	e.line = e.text.lineAt(e.dec.InputOffset()) - bytes.Count(raw, []byte("\n"))
	if int64(e.count) > BagMax {
		return nil, e.src.errorf(e.line, "more than %d entries", BagMax)
	}
	return raw, nil
}

func (e *Entries) end() error {
	if _, err := e.dec.Token(); err == nil || !errors.Is(err, io.EOF) {
		return e.src.errorf(e.text.lineAt(e.dec.InputOffset()), "something follows the end of the list")
	}
	return io.EOF
}

func (e *Entries) explain(err error) error {
	var syntax *json.SyntaxError
	switch at := e.dec.InputOffset(); {
	case errors.Is(err, errBudget):
		return e.src.errorf(e.text.lineAt(at), "entry %d has more than %s", e.count+1, Bytes(EntryMax))
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return e.src.errorf(e.text.lineAt(at), "the text ends within entry %d", e.count+1)
	case errors.As(err, &syntax):
		return e.fault(syntax)
	default:
		return fmt.Errorf("cannot read %s: %w", e.src.name, err)
	}
}

// fault is the error for a text that is no JSON. The offsets of the decoder leave out what it
// read as tokens, so fault reads the text again that the decoder has not passed on.
func (e *Entries) fault(syntax *json.SyntaxError) error {
	text, err := io.ReadAll(e.dec.Buffered())
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", e.src.name, err)
	}
	before, at := e.dec.InputOffset(), 0
	var value json.RawMessage
	var again *json.SyntaxError
	if errors.As(json.NewDecoder(bytes.NewReader(text)).Decode(&value), &again) {
		syntax, at = again, max(int(again.Offset)-1, 0)
	}
	line := e.text.lineAt(before + int64(at))
	return e.src.errorf(line, "entry %d: %s", e.count+1, notJSON(syntax, text, at, int(e.text.begin-before)))
}

// entry reads the map of an entry.
func (n *native) entry(t *Task, root *node, count int) error {
	what := fmt.Sprintf("entry %d", count)
	if err := n.keys(root, what, entryKeys); err != nil {
		return err
	}
	if err := n.run(t, what, root); err != nil {
		return err
	}
	for _, f := range []struct {
		key string
		to  *string
	}{{"name", &t.Name}, {"cwd", &t.Run.Cwd}, {"stdin", &t.Run.Stdin}, {"stdout", &t.Run.Stdout}, {"stderr", &t.Run.Stderr}} {
		v := root.find(f.key)
		if v == nil {
			continue
		}
		text, err := n.text(v, what+": "+f.key)
		if err != nil {
			return err
		}
		if len(text) > PathMax || f.key == "name" && (len(text) > NameMax || strings.ContainsFunc(text, isControl)) {
			return n.src.errorf(v.line, "%s: its %s is too long, or holds control characters", what, f.key)
		}
		*f.to = text
	}
	return n.needs(t, what, root)
}

var errBudget = errors.New("too long")

// meter passes text on, counts the lines, and stops at a budget, so that an endless entry
// does not fill the memory.
type meter struct {
	r      io.Reader
	first  []byte // read by peek, not yet passed on
	passed int64
	budget int64
	ends   []int64 // of lines passed on and not yet counted
	begin  int64   // of the line of the last [meter.lineAt]
	line   int
}

func (m *meter) Read(p []byte) (n int, err error) {
	if m.passed > m.budget {
		return 0, errBudget
	}
	if len(m.first) > 0 {
		n = copy(p, m.first)
		m.first = m.first[n:]
	} else {
		n, err = m.r.Read(p)
	}
	for i, c := range p[:n] {
		if c == '\n' {
			m.ends = append(m.ends, m.passed+int64(i))
		}
	}
	m.passed += int64(n)
	return n, err
}

// peek is the first byte other than a blank.
func (m *meter) peek() (byte, error) {
	var one [1]byte
	for len(m.first) < EntryMax {
		n, err := io.ReadFull(m.r, one[:])
		if n == 0 {
			return 0, err
		}
		m.first = append(m.first, one[0])
		if c := one[0]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, nil
		}
	}
	return 0, errBudget
}

// lineAt is the line of the byte at an offset, which never goes back.
func (m *meter) lineAt(at int64) int {
	k := 0
	for k < len(m.ends) && m.ends[k] < at {
		k++
	}
	if k > 0 {
		m.begin = m.ends[k-1] + 1
	}
	m.ends = m.ends[k:]
	m.line += k
	return m.line
}
