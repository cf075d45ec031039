package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Limits of the answers.
const (
	commandWait = 40 * time.Second // for a command and the browser that reads its answer
	logBytes    = 256 << 10        // of logs, of explain and of info; the page tells of a cut
	reportBytes = 32 << 20         // of a report: 100,000 bars have about 7 MB
	pastBytes   = 4 << 20          // of the history
	saidBytes   = 4 << 10          // of what a command says on standard error
	pastJobs    = "500"            // of the history, the last
	logLines    = "200"            // of each stream of a task, the last
)

// command is a command of filch whose output the page shows.
type command struct {
	args  []string // job stands for the id of the job
	json  bool
	limit int64
}

// job is the place of the id of a job, which the request names.
const job = "JOB"

// commands are all commands that a request can run, by path. A request names a job by digits
// and gives no other argument.
var commands = map[string]command{
	"explain":  {args: []string{"explain", job}, limit: logBytes},
	"history":  {args: []string{"history", "--all", "--json", "-n", pastJobs}, json: true, limit: pastBytes},
	"info":     {args: []string{"info", job}, limit: logBytes},
	"logs":     {args: []string{"logs", "--label", "--tail", logLines, job}, limit: logBytes},
	"timeline": {args: []string{"report", job, "--json"}, json: true, limit: reportBytes},
}

// answer runs a command, and sends what it prints. Nothing is kept here but the buffers.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, c *command) {
	args := make([]string, len(c.args))
	for i, a := range c.args {
		if a == job {
			id, err := strconv.ParseUint(r.URL.Query().Get("job"), 10, 31)
			if err != nil || id == 0 {
				s.refuse(w, http.StatusBadRequest, "the request names no job")
				return
			}
			a = strconv.FormatUint(id, 10)
		}
		args[i] = a
	}
	select {
	case s.commands <- struct{}{}:
		defer func() { <-s.commands }()
	default:
		s.refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d commands run for this dashboard already", maxCommands))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandWait)
	defer cancel()
	s.within(w, commandWait)
	cmd := s.cfg.Command(ctx, args...)
	said := &limited{left: saidBytes}
	cmd.Stderr, cmd.WaitDelay = said, time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	ended, err := s.cfg.Start(cmd)
	if err != nil {
		s.refuse(w, http.StatusInternalServerError, "cannot start filch "+c.args[0]+": "+err.Error())
		return
	}
	s.pass(w, cmd, out, said, c)
	cancel() // a command that still writes ends here
	_ = cmd.Wait()
	ended()
}

// pass copies the output of a command that has begun.
func (s *Server) pass(w http.ResponseWriter, cmd *exec.Cmd, out io.Reader, said *limited, c *command) {
	in := bufio.NewReader(out)
	if _, err := in.Peek(1); err != nil { // the command printed nothing
		err = cmd.Wait()
		text := said.String()
		switch {
		case strings.TrimSpace(text) != "":
		case err != nil:
			text = "filch " + c.args[0] + " ended: " + err.Error()
		case c.json:
			text = "filch " + c.args[0] + " printed nothing"
		default:
			text = "(no output)"
		}
		code := http.StatusOK
		if err != nil || c.json {
			code = http.StatusBadGateway
		}
		s.refuse(w, code, text)
		return
	}
	kind := "text/plain; charset=utf-8"
	if c.json {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	n, err := io.Copy(w, io.LimitReader(in, c.limit))
	if err == nil && n == c.limit && !c.json {
		if _, err := in.Peek(1); !errors.Is(err, io.EOF) {
			_, _ = fmt.Fprintf(w, "\n(the rest is left out: filch %s in a terminal shows all)\n", c.args[0])
		}
	}
}

// limited keeps the first bytes.
type limited struct {
	kept bytes.Buffer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	l.kept.Write(b[:n])
	return len(b), nil
}

func (l *limited) String() string { return l.kept.String() }
