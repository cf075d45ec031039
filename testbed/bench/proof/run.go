package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// prover runs things once and remembers what came out.
type prover struct {
	filch   string
	jobs    int
	tables  string // of the bench; "" all
	began   time.Time
	results map[string]*result // by suite
	bench   *figures
	failed  error // of the bench
}

// result is what a suite said.
type result struct {
	passed, failed, skipped int
	names                   []string // of what failed
	said                    []string // the end of what each of them printed
	figures                 []string
	err                     error
}

func (r *result) ok() bool { return r.err == nil && r.failed == 0 && r.skipped == 0 && r.passed > 0 }

func (r *result) summary() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.failed > 0:
		return fmt.Sprintf("%d of %d tests failed: %s", r.failed, r.failed+r.passed, strings.Join(r.names, ", "))
	case r.passed == 0:
		return "no test ran"
	}
	text := fmt.Sprintf("%d tests passed", r.passed)
	if r.skipped > 0 {
		text += fmt.Sprintf(", %d skipped", r.skipped)
	}
	return strings.Join(append(r.figures, text), ", ")
}

// Limits of suites.
const (
	suiteTimeout = "90m"    // ends tests that hang
	saidMax      = 16 << 10 // bytes kept of what one test prints
)

// run runs a suite, once in the life of the prover.
func (p *prover) run(s suite) *result {
	key := fmt.Sprint(s)
	if r := p.results[key]; r != nil {
		return r
	}
	args := []string{"test", "-json", "-count=1", "-timeout", suiteTimeout}
	if s.run != "" {
		args = append(args, "-run", s.run)
	}
	if s.tags != "" {
		args = append(args, "-tags", s.tags)
	}
	if s.race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, s.dir)...)
	cmd.Env = append(os.Environ(), "FILCH_PROOF=1", "FILCH_BIN="+p.filch)
	cmd.Env = append(cmd.Env, s.env...)
	out, err := cmd.Output()
	r := readResult(strings.NewReader(string(out)))
	for _, text := range r.said {
		fmt.Fprint(os.Stderr, text)
	}
	if err != nil && r.failed == 0 {
		r.err = fmt.Errorf("go test %s: %w: %s", s.dir, err, lastLine(out))
	}
	if p.results == nil {
		p.results = map[string]*result{}
	}
	p.results[key] = r
	return r
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// readResult reads what `go test -json` prints. Only the outermost tests are
// counted; figures are gathered from all.
func readResult(in io.Reader) *result {
	r := &result{}
	said := map[string]string{} // by the outermost test
	dec := json.NewDecoder(in)
	for {
		var e struct{ Action, Package, Test, Output string }
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return r
		} else if err != nil {
			r.err = fmt.Errorf("go test -json: %w", err)
			return r
		}
		if _, text, ok := strings.Cut(e.Output, "figure: "); ok && e.Action == "output" {
			r.figures = append(r.figures, strings.TrimSpace(text))
		}
		outermost, _, _ := strings.Cut(e.Test, "/")
		said[outermost] += e.Output
		said[outermost] = said[outermost][max(0, len(said[outermost])-saidMax):]
		if e.Test == "" || strings.Contains(e.Test, "/") {
			continue
		}
		switch e.Action {
		case "pass":
			r.passed++
		case "skip":
			r.skipped++
		case "fail":
			r.failed++
			r.names = append(r.names, e.Test)
			r.said = append(r.said, said[e.Test])
		}
	}
}

// figures is what the bench writes with -json, as far as it is judged.
type figures struct {
	Launches []struct {
		What         string
		Ranks, Hosts int
		Launcher     string
		WallMS       float64
		Error        string
	}
	Steps, Rates []struct {
		Launcher       string
		Clients, Hosts int
		PerSec         float64
		Failed         int64
	}
	Idle []struct {
		Node                string
		CPUBefore, CPUAfter float64
		RSSEarly, RSSAfter  int64
		Jobs                int
	}
	Stores    []storeFigure
	StoreIdle []storeIdle
	Tasks     []taskFigure
	Apps      []appFigure
	Stages    []stageFigure
}

// figures runs the bench in full, once; what it prints goes to stderr.
func (p *prover) figures() (*figures, error) {
	if p.bench != nil || p.failed != nil {
		return p.bench, p.failed
	}
	dir, err := os.MkdirTemp("", "filch-proof-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	report := filepath.Join(dir, "bench.json")
	cmd := exec.Command("go", "run", "./testbed/bench", "-filch", p.filch, "-json", report,
		"-tasks", "10000", "-queued", "15s", "-noops", "1000000", "-length", "10s", "-sleeps", "320", "-sleepruns", "3", "-fleet", "64", "-shapes", "4000",
		"-runs", "21", "-rate", "10s", "-store", "1s", "-idle", "30s", "-jobs", strconv.Itoa(p.jobs))
	if p.tables != "" {
		cmd.Args = append(cmd.Args, "-only", p.tables)
	}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		p.failed = fmt.Errorf("bench: %w", err)
		return nil, p.failed
	}
	raw, err := os.ReadFile(report)
	if err == nil {
		p.bench = &figures{}
		err = json.Unmarshal(raw, p.bench)
	}
	p.failed = err
	return p.bench, p.failed
}
