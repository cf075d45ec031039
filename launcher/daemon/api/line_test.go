package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDecode(t *testing.T) {
	for _, c := range [...]struct{ line, id, said string }{
		{`{"v":1,"id":7,"op":"hello"}`, "7", ""},
		{`{"v":1,"id":"a b","op":"cancel","job":3,"tasks":[[0,1],[5,5]]}`, `"a b"`, ""},
		{`{"v":1,"id":1,"op":"submit","argv":["x"],"env":{"A":"1"},"umask":63,"crash_limit":0}`, "1", ""},
		{``, "null", "no request"},
		{`[]`, "null", "no request"},
		{`{"v":1,"op":"hello"}`, "null", "no id"},
		{`{"v":1,"id":null,"op":"hello"}`, "null", "no id"},
		{`{"v":1,"id":{},"op":"hello"}`, "null", "neither"},
		{`{"v":1,"id":true,"op":"hello"}`, "null", "neither"},
		{`{"v":1,"id":"` + strings.Repeat("x", 63) + `","op":"hello"}`, "null", "at most 64"},
		{`{"id":1,"op":"hello"}`, "1", "version 0"},
		{`{"v":1,"id":1}`, "1", "no op"},
		{`{"v":1,"id":1,"op":"hello","job":1}`, "1", "unknown field"},
		{`{"v":1,"id":1,"op":"info","job":1e99}`, "1", `"job"`},
		{`{"v":1,"id":1,"op":"info","job":1}{`, "null", "no request"},
		{`{"v":1,"id":1,"op":"info","job":1`, "null", "no request"},
		{strings.Repeat("[", 200_000), "null", "no request"},
	} {
		q, err := decode([]byte(c.line))
		if string(q.id) != c.id {
			t.Errorf("%.60s: got the id %s, want %s", c.line, q.id, c.id)
		}
		if (err == nil) != (c.said == "") || err != nil && !strings.Contains(err.Error(), c.said) {
			t.Errorf("%.60s: got %v, want %q", c.line, err, c.said)
		}
	}
}

// Whatever a line has, decode ends, and its answer is one line of JSON with an id.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":7,"op":"results","job":1,"first":2,"follow":true,"output":3}`))
	f.Add([]byte(`{"v":1,"id":"x","op":"submit","argv":["a","b"],"cwd":"/","tasks":3,"env":{"A":"b"},"mem":"1G","gpus":"a:1","time":"1m"}`))
	f.Add([]byte(`{"v":1,"id":1,"op":"submit","argv":["a"],"cwd":"/","lines":["a","b"],"worker":true,"open":true,"keep":"none"}`))
	f.Add([]byte(`{"v":1,"id":1,"op":"stop","request":"a"}`))
	f.Add([]byte("{\"v\":1,\"id\":\"\u2028\",\"op\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		q, err := decode(line)
		if err == nil {
			if a, ok := q.args.(*submitArgs); ok && a.check() == nil && a.Ranks == 0 {
				_, err = a.bag()
			}
		}
		r := reply{V: version, ID: q.id, Result: struct{}{}}
		if err != nil {
			r = reply{V: version, ID: q.id, Error: failed(err)}
		}
		b, err := json.Marshal(&r)
		if err != nil || bytes.ContainsAny(b, "\n") || !json.Valid(b) {
			t.Errorf("got %q, %v", b, err)
		}
	})
}

func TestReadLine(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader("a\r\n\n"+strings.Repeat("b", 100)+"\nrest"), 16)
	for _, want := range []string{"a", "", strings.Repeat("b", 100)} {
		if got, err := readLine(in); string(got) != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if got, err := readLine(in); got != nil || !errors.Is(err, io.EOF) {
		t.Errorf("an unfinished line: got %q, %v", got, err)
	}
	long := bufio.NewReader(io.LimitReader(endless{}, lineMax+1<<20))
	if _, err := readLine(long); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a long line: got %v", err)
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// pair is a connection.
func pair(t *testing.T) (here, there *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		ends[i] = c.(*net.UnixConn)
		_ = ends[i].SetDeadline(time.Now().Add(20 * time.Second))
	}
	return ends[0], ends[1]
}

// A writer keeps no more than its limit, tells the reader about the cut, and hands out whole
// lines.
func TestWriterCutsOff(t *testing.T) {
	here, there := pair(t)
	w := newWriter(here, 1<<20)
	text := strings.Repeat("x", 1000)
	for !w.isShut() {
		w.send(reply{ID: null, Result: text})
	}
	w.mu.Lock()
	if len(w.queue) > partMax+2000 {
		t.Errorf("after the cut the queue has %d bytes", len(w.queue))
	}
	w.mu.Unlock()
	w.send(reply{ID: null, Result: "too late"})
	if w.room() {
		t.Error("a writer that cut its reader off has room")
	}
	go func() { w.close(); here.Close() }()
	said, err := io.ReadAll(there)
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.Split(bytes.TrimSuffix(said, []byte("\n")), []byte("\n"))
	for i, line := range all {
		var r struct {
			Result string
			Error  *failure
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("line %d: %q: %v", i, line, err)
		}
		if last := i == len(all)-1; last != (r.Error != nil && r.Error.Code == "busy" && strings.Contains(r.Error.Text, "cut off")) {
			t.Errorf("line %d of %d: got %.100q", i, len(all), line)
		}
	}
}

// News wait for the reader, who is not cut off.
func TestWriterRoom(t *testing.T) {
	here, there := pair(t)
	w := newWriter(here, 1<<20)
	const lines = 3000
	go func() {
		defer here.Close()
		for range lines {
			if !w.room() {
				break
			}
			w.send(reply{ID: null, News: strings.Repeat("y", 1000)})
		}
		w.close()
	}()
	in, n := bufio.NewScanner(there), 0
	for in.Scan() {
		if n++; strings.Contains(in.Text(), "error") {
			t.Fatalf("line %d: %s", n, in.Text())
		}
	}
	if n != lines {
		t.Errorf("got %d lines, want %d", n, lines)
	}
}

func TestFailed(t *testing.T) {
	for _, c := range [...]struct {
		err  error
		want failure
	}{
		{filch.Errorf(filch.NoFit, "a").WithHint("b"), failure{"no-fit", "a", "b"}},
		{io.ErrUnexpectedEOF, failure{"internal", "unexpected EOF", ""}},
	} {
		if got := *failed(c.err); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}

func TestTail(t *testing.T) {
	var a tail
	for range 10 {
		a.add([]byte("abc"), 1, 7)
	}
	a.finish()
	if a.Text != "cabcabc" || a.Lost != 10+23 || a.Bytes != nil {
		t.Errorf("got %+v", a)
	}
	var b tail
	b.add([]byte{0xff}, 0, 7)
	if b.finish(); string(b.Bytes) != "\xff" || b.Text != "" {
		t.Errorf("got %+v", b)
	}
}
