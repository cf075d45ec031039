package dashboard

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A request can name a job by digits, and nothing else reaches a command.
func TestRequestsNameJobsOnly(t *testing.T) {
	s, stop := serve(t, 10, `printf '%s|' "$@"`)
	defer stop()
	for path, want := range map[string]string{
		"data/explain?job=7":              "200 explain|7|",
		"data/info?job=007&x=y":           "200 info|7|",
		"data/logs?job=2147483647":        "200 logs|--label|--tail|200|2147483647|",
		"data/history?job=--help":         "200 history|--all|--json|-n|500|",
		"data/timeline?job=1":             "200 report|1|--json|",
		"data/explain":                    "400 the request names no job",
		"data/explain?job=0":              "400 the request names no job",
		"data/explain?job=-1":             "400 the request names no job",
		"data/explain?job=--help":         "400 the request names no job",
		"data/explain?job=1%20--node%20x": "400 the request names no job",
		"data/explain?job=2147483648":     "400 the request names no job",
		"data/down?job=1":                 "404 the dashboard has no page of that name",
		"data/cancel?job=1":               "404 the dashboard has no page of that name",
	} {
		if code, text := s.get(path); fmt.Sprint(code, " ", text) != want {
			t.Errorf("%s: got %d %q, want %q", path, code, text, want)
		}
	}
}

func TestAnswersOfCommandsThatFail(t *testing.T) {
	for script, want := range map[string]string{
		`echo "there is no job $2" >&2; exit 2`: "502 there is no job 7\n",
		`exit 3`:                                "502 filch info ended: exit status 3",
		`true`:                                  "200 (no output)",
		`yes 'a long complaint' | head -c 100000 >&2; exit 1`: "502 " + strings.Repeat("a long complaint\n", saidBytes)[:saidBytes],
	} {
		s, stop := serve(t, 10, script)
		if code, text := s.get("data/info?job=7"); fmt.Sprint(code, " ", text) != want {
			t.Errorf("%s: got %d %.100q", script, code, text)
		}
		stop()
	}
	s, stop := serve(t, 10, "")
	defer stop()
	s.cfg.Command = func(ctx context.Context, _ ...string) *exec.Cmd { return exec.CommandContext(ctx, "/nowhere/filch") }
	if code, text := s.get("data/info?job=7"); code != 500 || !strings.Contains(text, "cannot start filch info") {
		t.Errorf("got %d, %q", code, text)
	}
}

// An endless command ends once its answer has logBytes, and the text tells of the rest.
func TestAnswersAreCut(t *testing.T) {
	s, stop := serve(t, 10, "exec yes")
	defer stop()
	code, text := s.get("data/logs?job=1")
	if code != 200 || len(text) < logBytes || len(text) > logBytes+200 || !strings.Contains(text[logBytes:], "the rest is left out") {
		t.Errorf("got %d and %d bytes, which end with %.100q", code, len(text), text[min(len(text), logBytes):])
	}
}

// Commands beyond maxCommands get 503 at once, and a browser that goes away ends its command.
func TestCommandsAreBounded(t *testing.T) {
	s, stop := serve(t, 10, "exec sleep 1000")
	defer stop()
	await := func(n int) {
		t.Helper()
		poll := time.NewTicker(time.Millisecond)
		defer poll.Stop()
		for end := time.Now().Add(10 * time.Second); len(s.commands) != n; <-poll.C {
			if time.Now().After(end) {
				t.Fatalf("after 10 s %d commands run, want %d", len(s.commands), n)
			}
		}
	}
	var conns []net.Conn
	for range maxCommands {
		conns = append(conns, s.send("GET", "/"+s.token+"/data/logs?job=1", "127.0.0.1:8080"))
	}
	await(maxCommands)
	if code, text := s.get("data/info?job=1"); code != 503 || !strings.Contains(text, "3 commands") {
		t.Errorf("got %d, %q", code, text)
	}
	for _, c := range conns {
		c.Close()
	}
	await(0)
}
