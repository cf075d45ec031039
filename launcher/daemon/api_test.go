package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/watch"
)

// Limits of docs/api.md.
const (
	lineMax   = 4 << 20
	queuedMax = 16 << 20
)

// lines is a client that speaks JSON lines.
type lines struct {
	t    testing.TB
	sock net.Conn
	in   *bufio.Reader
	next int
	late map[string][]answerLine // of other requests
}

// answerLine is a line of the launcher.
type answerLine struct {
	V      int             `json:"v"`
	ID     json.RawMessage `json:"id"`
	Result map[string]any  `json:"result"`
	News   map[string]any  `json:"news"`
	Error  struct{ Code, Text, Hint string }
}

func (r *rig) lines() *lines {
	r.t.Helper()
	sock, err := net.Dial("unix", r.cfg.Dir.Socket())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { sock.Close() })
	_ = sock.SetDeadline(time.Now().Add(30 * time.Second))
	return &lines{t: r.t, sock: sock, in: bufio.NewReader(sock), late: map[string][]answerLine{}}
}

// send sends a request; fields are the text behind the op.
func (l *lines) send(op, fields string) (id string) {
	l.t.Helper()
	l.next++
	if fields != "" {
		fields = "," + fields
	}
	if _, err := fmt.Fprintf(l.sock, `{"v":1,"id":%d,"op":%q%s}`+"\n", l.next, op, fields); err != nil {
		l.t.Fatal(err)
	}
	return fmt.Sprint(l.next)
}

// read returns the next line of a request.
func (l *lines) read(id string) answerLine {
	l.t.Helper()
	if list := l.late[id]; len(list) > 0 {
		l.late[id] = list[1:]
		return list[0]
	}
	for {
		text, err := l.in.ReadBytes('\n')
		if err != nil {
			l.t.Fatalf("request %s: %v after %q", id, err, text)
		}
		var a answerLine
		if err := json.Unmarshal(text, &a); err != nil || a.V != 1 {
			l.t.Fatalf("got %q, %v", text, err)
		}
		if string(a.ID) == id {
			return a
		}
		l.late[string(a.ID)] = append(l.late[string(a.ID)], a)
	}
}

// ask returns the news and the last line of a request that ends well.
func (l *lines) ask(op, fields string) (news []map[string]any, result map[string]any) {
	l.t.Helper()
	return l.rest(l.send(op, fields))
}

func (l *lines) rest(id string) (news []map[string]any, result map[string]any) {
	l.t.Helper()
	for {
		switch a := l.read(id); {
		case a.Error.Code != "":
			l.t.Fatalf("got the error %+v", a.Error)
		case a.News != nil:
			news = append(news, a.News)
		default:
			return news, a.Result
		}
	}
}

// refused returns the error of a request.
func (l *lines) refused(id string) (code, text string) {
	l.t.Helper()
	for {
		if a := l.read(id); a.News == nil {
			return a.Error.Code, a.Error.Text
		}
	}
}

func TestLinesRunABag(t *testing.T) {
	r := start(t, testConfig(t))
	l := r.lines()
	_, hello := l.ask("hello", "")
	if hello["node"] != "n1" || hello["limits"].(map[string]any)["line"] != float64(lineMax) {
		t.Errorf("hello: got %v", hello)
	}
	_, job := l.ask("submit", `"argv":["sh","-c","echo out $FILCH_TASK; echo err >&2; [ $FILCH_TASK != 1 ] || exit 7; [ $FILCH_TASK != 2 ] || kill -9 $$"],"cwd":"/","tasks":3,"name":"three"`)
	id := fmt.Sprintf(`"job":%v`, job["job"])
	if job["tasks"] != 3.0 || job["name"] != "three" {
		t.Errorf("submit: got %v", job)
	}
	news, end := l.ask("results", id+`,"follow":true`)
	if end["state"] != "failed" || end["exit_code"] != 1.0 || len(news) != 3 {
		t.Errorf("results: got %v after %d tasks", end, len(news))
	}
	for _, n := range news {
		i := int(n["task"].(float64))
		want := []struct {
			state  string
			code   float64
			signal any
		}{{"ok", 0, nil}, {"failed", 7, nil}, {"killed", 137, 9.0}}[i]
		if n["state"] != want.state || n["exit_code"] != want.code || n["signal"] != want.signal || n["node"] != "n1" || n["attempts"] != 1.0 {
			t.Errorf("task %d: got %v", i, n)
		}
		if got := n["stdout"].(map[string]any)["text"]; got != fmt.Sprintf("out %d\n", i) {
			t.Errorf("task %d: got %q on stdout", i, got)
		}
		if got := n["stderr"].(map[string]any)["text"]; !strings.HasPrefix(got.(string), "err\n") {
			t.Errorf("task %d: got %q on stderr", i, got)
		}
	}
	if _, again := l.ask("wait", id); again["state"] != "failed" {
		t.Errorf("wait: got %v", again)
	}
	if part, _ := l.ask("results", id+`,"first":2,"output":0`); len(part) != 1 || part[0]["task"] != 2.0 || part[0]["stdout"] != nil {
		t.Errorf("the last result without output: got %v", part)
	}
}

func TestLinesRunRanks(t *testing.T) {
	r := start(t, testConfig(t))
	l := r.lines()
	_, job := l.ask("submit", `"argv":["sh","-c","echo $FILCH_RANK : $1; exit $FILCH_RANK","x",":"],"cwd":"/tmp","ranks":2,"env":{"PATH":"/bin:/usr/bin"}`)
	news, end := l.ask("results", fmt.Sprintf(`"job":%v,"follow":true`, job["job"]))
	if end["state"] != "failed" || end["exit_code"] != 1.0 || end["kind"] != "run" || len(news) != 2 {
		t.Fatalf("got %v, %v", news, end)
	}
	for i, n := range news {
		if n["rank"] != float64(i) || n["stdout"].(map[string]any)["text"] != fmt.Sprintf("%d : :\n", i) {
			t.Errorf("rank %d: got %v", i, n)
		}
	}
	if news[1]["exit_code"] != 1.0 {
		t.Errorf("rank 1: got %v", news[1])
	}
}

// Tasks of an open job go to workers; results come while the job is open.
func TestLinesFeedWorkers(t *testing.T) {
	r := start(t, testConfig(t))
	l := r.lines()
	_, job := l.ask("submit", `"argv":["sh","-c","while read -r i a text; do echo got $text >&2; echo $i 0; done"],"cwd":"/","worker":true,"open":true`)
	id := fmt.Sprintf(`"job":%v`, job["job"])
	follow := l.send("results", id+`,"follow":true`)
	for i := range 300 {
		if _, a := l.ask("add", id+fmt.Sprintf(`,"lines":["line %d"]`, i)); a["first"] != float64(i) || a["added"] != 1.0 {
			t.Fatalf("add: got %v", a)
		}
		n := l.read(follow).News
		if n["task"] != float64(i) || n["state"] != "ok" || n["stderr"].(map[string]any)["text"] != fmt.Sprintf("got line %d\n", i) {
			t.Fatalf("task %d: got %v", i, n)
		}
	}
	l.ask("close", id)
	if _, end := l.rest(follow); end["state"] != "ok" {
		t.Errorf("got %v", end)
	}
}

func TestLinesCancelWatchAndStop(t *testing.T) {
	r := start(t, testConfig(t))
	l := r.lines()
	_, job := l.ask("submit", `"argv":["sleep","1000"],"cwd":"/","tasks":100`)
	id := fmt.Sprintf(`"job":%v`, job["job"])
	watching, results, waiting, events := l.send("watch", id), l.send("results", id+`,"follow":true`), l.send("wait", id), l.send("events", `"past":true,`+id)
	poll(t, "the first tasks to run", func() bool {
		n := l.read(watching).News
		return n["tasks"].(map[string]any)["running"] == 4.0
	})
	if _, done := l.ask("stop", `"request":`+waiting); done["stopped"] != true {
		t.Errorf("stop: got %v", done)
	}
	if code, _ := l.refused(waiting); code != "cancelled" {
		t.Errorf("a stopped wait: got %s", code)
	}
	if code, text := l.refused(l.send("wait", id+`,"within":0.01`)); code != "timeout" {
		t.Errorf("a short wait: got %s, %s", code, text)
	}
	l.ask("cancel", id+`,"tasks":[[99,99]],"reason":"not wanted"`)
	if n := l.read(results).News; n["task"] != 99.0 || n["state"] != "cancelled" || n["reason"] != "not wanted" {
		t.Errorf("got %v, want the cancelled task", n)
	}
	l.ask("cancel", id)
	news, end := l.rest(results)
	if len(news) != 99 || end["state"] != "cancelled" {
		t.Errorf("got %d results and %v", len(news), end)
	}
	l.rest(watching)
	kinds := map[string]bool{}
	poll(t, "the events of the end", func() bool {
		kinds[fmt.Sprint(l.read(events).News["event"])] = true
		return kinds["task-started"] && kinds["job-ended"]
	})
}

func TestLinesRefuse(t *testing.T) {
	r := start(t, testConfig(t))
	l := r.lines()
	for _, c := range [...]struct{ op, fields, code, text string }{
		{"fly", "", "invalid", "no op"},
		{"hello", `"x":1`, "invalid", "unknown field"},
		{"info", `"job":4711`, "not-found", "4711"},
		{"info", `"job":"x"`, "invalid", "string"},
		{"submit", `"argv":["true"]`, "invalid", "root"},
		{"submit", `"argv":["true"],"cwd":"/","cpus":99`, "no-fit", "99"},
		{"submit", `"argv":["true"],"cwd":"/","ranks":99`, "no-fit", "99"},
		{"submit", `"argv":["true"],"cwd":"/","ranks":2,"tasks":2`, "invalid", "run"},
		{"submit", `"argv":["true"],"cwd":"/","mem":"x"`, "invalid", "mem"},
		{"submit", `"cwd":"/"`, "invalid", "nothing to run"},
		{"submit", `"argv":["true"],"cwd":"/","lines":["a\nb"]`, "invalid", "line 0"},
		{"add", `"job":1,"lines":[]`, "invalid", "nothing"},
		{"wait", `"job":1,"within":-1`, "invalid", "-1"},
		{"hello", `"v":2`, "invalid", "version 2"},
	} {
		if code, text := l.refused(l.send(c.op, c.fields)); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s %s: got %s: %s", c.op, c.fields, code, text)
		}
	}
	if o := r.run(1, "true"); o.ended.Code != 0 {
		t.Errorf("afterwards: got %+v", o.ended)
	}
}

func TestLinesThatAreTooLong(t *testing.T) {
	r := start(t, testConfig(t))
	l := r.lines()
	before := r.in.Watch.Count(watch.FramesBad)
	if _, err := io.WriteString(l.sock, `{"v":1,"id":1,"op":"submit","name":"`); err != nil {
		t.Fatal(err)
	}
	filler := strings.Repeat("x", 1<<20)
	for range lineMax>>20 + 1 {
		if _, err := io.WriteString(l.sock, filler); err != nil {
			break // the launcher has closed the connection
		}
	}
	if code, text := l.refused("null"); code != "invalid" || !strings.Contains(text, "longer than") {
		t.Errorf("got %s: %s", code, text)
	}
	poll(t, "the refusal to be counted", func() bool { return r.in.Watch.Count(watch.FramesBad) > before })
	m := r.lines()
	if code, text := m.refused(m.send("hello", `"x":"`+strings.Repeat("x", 100<<10)+`"`)); code != "invalid" || !strings.Contains(text, "at most") {
		t.Errorf("a long hello: got %s: %s", code, text)
	}
}

// A client that asks and does not read is cut off, and is told so with its last line.
func TestLinesOfASlowReader(t *testing.T) {
	r := start(t, testConfig(t))
	l := r.lines()
	for range 100 {
		l.send("submit", `"argv":["true"],"cwd":"/","name":"`+strings.Repeat("n", 200)+`"`)
	}
	l.send("jobs", "") // is answered after the jobs are there, or a few
	for i := 0; ; i++ {
		if i > 1e6 {
			t.Fatal("a client that does not read was never cut off")
		}
		// The launcher takes all lines until the cut: then a write finds no room.
		_ = l.sock.SetWriteDeadline(time.Now().Add(4 * time.Second))
		if _, err := fmt.Fprintf(l.sock, `{"v":1,"id":"r%d","op":"jobs"}`+"\n", i); err != nil {
			break
		}
	}
	said, _ := io.ReadAll(l.in)
	all := strings.Split(strings.TrimSuffix(string(said), "\n"), "\n")
	if last := all[len(all)-1]; !strings.Contains(last, "cut off") {
		t.Errorf("the last line is %.300q", last)
	}
	if len(said) > queuedMax+1<<20 {
		t.Errorf("the launcher kept %d bytes", len(said))
	}
	if _, hello := r.lines().ask("hello", ""); hello["node"] != "n1" {
		t.Errorf("afterwards: got %v", hello)
	}
}

// A client that has said all gets its answers.
func TestLinesOfAClientThatHasSaidAll(t *testing.T) {
	r := start(t, testConfig(t))
	l := r.lines()
	_, job := l.ask("submit", `"argv":["sleep","0.1"],"cwd":"/"`)
	waiting := l.send("wait", fmt.Sprintf(`"job":%v`, job["job"]))
	if err := l.sock.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, end := l.rest(waiting); end["state"] != "ok" {
		t.Errorf("got %v", end)
	}
	if rest, err := io.ReadAll(l.in); len(rest) > 0 || err != nil {
		t.Errorf("behind the last answer: got %q, %v", rest, err)
	}
}

// The end of the launcher ends the requests with a word.
func TestLinesAtTheEndOfTheLauncher(t *testing.T) {
	r := start(t, testConfig(t))
	l := r.lines()
	_, job := l.ask("submit", `"argv":["sleep","1000"],"cwd":"/"`)
	id := fmt.Sprintf(`"job":%v`, job["job"])
	waiting, results, events := l.send("wait", id), l.send("results", id+`,"follow":true`), l.send("events", "")
	l.ask("hello", "")
	r.Stop()
	for _, id := range []string{waiting, results, events} {
		if code, text := l.refused(id); code != "unavailable" && code != "cancelled" {
			t.Errorf("request %s: got %s: %s", id, code, text)
		}
	}
}

// A client that goes takes its requests along, and no job.
func TestLinesOfAClientThatGoes(t *testing.T) {
	r := start(t, testConfig(t))
	mark := filepath.Join(t.TempDir(), "mark")
	l := r.lines()
	_, job := l.ask("submit", fmt.Sprintf(`"argv":["sh","-c","while [ ! -e $0 ]; do sleep 0.01; done","%s"],"cwd":"/"`, mark))
	id := fmt.Sprintf(`"job":%v`, job["job"])
	l.send("results", id+`,"follow":true`)
	l.send("watch", id)
	l.send("events", "")
	l.ask("hello", "")
	l.sock.Close()
	poll(t, "the requests to end", func() bool { return r.clients.Count() <= 1 })
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, end := r.lines().ask("wait", id); end["state"] != "ok" {
		t.Errorf("got %v", end)
	}
}
