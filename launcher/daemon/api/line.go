package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/filch-hpc/filch"
)

// version is the version of the lines: a launcher refuses a line of another version.
const version = 1

// Limits of a client.
const (
	lineMax   = 4 << 20  // bytes of a line: some 10,000 tasks at a time
	openMax   = 256      // requests under way: each has a goroutine, and most a connection
	heldMax   = 32 << 20 // bytes of the lines of these requests; more wait in the socket
	queuedMax = 16 << 20 // bytes of answers that the client has not read
	shortMax  = 64 << 10 // bytes of a line that brings no tasks
	idMax     = 64       // bytes of an id
)

// request is a decoded line.
type request struct {
	id   json.RawMessage // as the client wrote it; null if the line has none
	op   *operation
	args any // a pointer to the arguments of op
	size int // of the line, in bytes
}

// envelope is what all requests have in common.
type envelope struct {
	V  int             `json:"v"`
	ID json.RawMessage `json:"id"`
	Op string          `json:"op"`
}

// reply is a line of the launcher; one of Result, News and Error is set.
type reply struct {
	V      int             `json:"v"`
	ID     json.RawMessage `json:"id"`
	Result any             `json:"result,omitempty"`
	News   any             `json:"news,omitempty"`
	Error  *failure        `json:"error,omitempty"`
}

// failure is an error for a program and for a person.
type failure struct {
	Code string `json:"code"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// codes are the words for the kinds of errors.
var codes = [...]string{
	filch.Internal: "internal", filch.Invalid: "invalid", filch.Denied: "denied", filch.NoFit: "no-fit", filch.Busy: "busy", filch.NotFound: "not-found",
	filch.NodeLost: "node-lost", filch.Timeout: "timeout", filch.Canceled: "cancelled", filch.Unavailable: "unavailable",
}

// failed is the error of a reply.
func failed(err error) *failure {
	var told *filch.Error
	if !errors.As(err, &told) {
		told = filch.Errorf(filch.Internal, "%s", err.Error())
	}
	f := &failure{Code: codes[filch.Internal], Text: told.Text, Hint: told.Hint}
	if int(told.Kind) < len(codes) {
		f.Code = codes[told.Kind]
	}
	return f
}

var null = json.RawMessage("null")

// decode reads a line. The request of an error has the id, as far as the line has one.
func decode(line []byte) (*request, error) {
	q := &request{id: null, size: len(line)}
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return q, filch.Errorf(filch.Invalid, "the line is no request: %s", reason(err))
	}
	if err := checkID(e.ID); err != nil {
		return q, err
	}
	q.id = bytes.Clone(e.ID)
	if e.V != version {
		return q, filch.Errorf(filch.Invalid, "the line has version %d, and this launcher speaks version %d", e.V, version).WithHint(`each line begins with {"v":%d,"id":1,"op":"hello"`, version)
	}
	q.op = operations[e.Op]
	if q.op == nil {
		return q, filch.Errorf(filch.Invalid, "there is no op %.40q", e.Op).WithHint("the ops are %s", strings.Join(names(), ", "))
	}
	if len(line) > shortMax && !q.op.long {
		return q, filch.Errorf(filch.Invalid, "the line has %d bytes, and the op %s takes at most %d", len(line), e.Op, shortMax)
	}
	q.args = q.op.args()
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(q.args); err != nil {
		return q, filch.Errorf(filch.Invalid, "the op %s does not take this line: %s", e.Op, reason(err)).WithHint("docs/api.md lists the fields")
	}
	return q, nil
}

// checkID accepts a number or a short text.
func checkID(id json.RawMessage) error {
	switch {
	case len(id) == 0 || bytes.Equal(id, null):
		return filch.Errorf(filch.Invalid, "the line has no id").WithHint("the answer has the id of its request")
	case len(id) > idMax:
		return filch.Errorf(filch.Invalid, "the id has %d bytes, at most %d", len(id), idMax)
	case id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f':
		return filch.Errorf(filch.Invalid, "the id is neither a number nor a text")
	}
	return nil
}

// reason is the text of an error of package json, without the names of Go.
func reason(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Sprintf("the field %q takes no %s", kind.Field, kind.Value)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "the line is cut"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
