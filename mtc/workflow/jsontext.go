package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// jsonText walks a JSON text piece by piece and knows its lines.
type jsonText struct {
	src   source
	text  []byte
	dec   *json.Decoder
	seen  int // bytes whose lines are counted
	line  int // of the byte at seen
	first int // of the first byte
}

func newJSONText(src source, text []byte) *jsonText {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return &jsonText{src: src, text: text, dec: dec, line: 1, first: 1}
}

// here is the line of the next value. The line must not go back.
func (j *jsonText) here() int {
	at := min(int(j.dec.InputOffset()), len(j.text))
	for at < len(j.text) && bytes.IndexByte([]byte(" \t\r\n,:"), j.text[at]) >= 0 {
		at++
	}
	return j.lineAt(at)
}

func (j *jsonText) lineAt(at int) int {
	if at < j.seen {
		return j.first + bytes.Count(j.text[:at], []byte("\n"))
	}
	j.line += bytes.Count(j.text[j.seen:at], []byte("\n"))
	j.seen = at
	return j.line
}

// explain makes an error from a decoder's error, with the exact line.
func (j *jsonText) explain(err error, line int) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		what := "it"
		if kind.Field != "" {
			what = kind.Field
		}
		return j.src.errorf(line, "%s is a %s, which makes no sense here", what, kind.Value)
	}
	var whole json.RawMessage
	var syntax *json.SyntaxError
	if again := json.Unmarshal(j.text, &whole); errors.As(again, &syntax) {
		at := max(0, min(int(syntax.Offset)-1, len(j.text)))
		begin := bytes.LastIndexByte(j.text[:at], '\n') + 1
		return j.src.errorf(j.first+bytes.Count(j.text[:at], []byte("\n")), "%s", notJSON(syntax, j.text, at, begin))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return j.src.errorf(line, "the text ends too early")
	}
	return j.src.errorf(line, "this is no JSON")
}

// delim takes the opening of an object or list.
func (j *jsonText) delim(want json.Delim, what string) error {
	line := j.here()
	tok, err := j.dec.Token()
	if err != nil {
		return j.explain(err, line)
	}
	if tok != want {
		kind := "an object"
		if want == '[' {
			kind = "a list"
		}
		return j.src.errorf(line, "%s is not %s", what, kind)
	}
	return nil
}

// object calls visit for each key; visit must take the value.
func (j *jsonText) object(what string, visit func(key string) error) error {
	if err := j.delim('{', what); err != nil {
		return err
	}
	for j.dec.More() {
		line := j.here()
		tok, err := j.dec.Token()
		if err != nil {
			return j.explain(err, line)
		}
		if err := visit(fmt.Sprint(tok)); err != nil {
			return err
		}
	}
	return j.close()
}

// list calls visit for each element; visit must take the element.
func (j *jsonText) list(what string, visit func(line int) error) error {
	if err := j.delim('[', what); err != nil {
		return err
	}
	for j.dec.More() {
		if err := visit(j.here()); err != nil {
			return err
		}
	}
	return j.close()
}

func (j *jsonText) close() error {
	line := j.here()
	if _, err := j.dec.Token(); err != nil {
		return j.explain(err, line)
	}
	return nil
}

// take decodes the next value.
func (j *jsonText) take(v any) error {
	line := j.here()
	if err := j.dec.Decode(v); err != nil {
		return j.explain(err, line)
	}
	return nil
}

func (j *jsonText) skip() error {
	var v json.RawMessage
	return j.take(&v)
}

// end refuses text after the end of the workflow.
func (j *jsonText) end() error {
	line := j.here()
	tok, err := j.dec.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return j.explain(err, line)
	}
	return j.src.errorf(line, "something follows the end of the workflow: %s", quote(fmt.Sprint(tok)))
}
