//go:build root

package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

const (
	commandWait = time.Minute // for a command of filch
	scrapedWait = time.Minute // until Prometheus has two readings of each node
	scripts     = "../../scripts/metrics"
)

// site is an instance of four launchers and a Prometheus that reads them.
type site struct {
	t   *testing.T
	dir string
	bin string
	api string
}

func (s *site) filch(args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), commandWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.bin, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir, "XDG_RUNTIME_DIR=" + s.dir, "LANG=C"}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("filch %v: %v\n%s%s", args, err, out, said.String())
	}
	return string(out)
}

// start starts the launchers and Prometheus.
func (s *site) start() {
	s.t.Helper()
	s.filch("up", "--nodes", "4", "--slots", "1", "--metrics", "127.0.0.1:0")
	s.t.Cleanup(func() {
		cmd := exec.Command(s.bin, "down")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir, "XDG_RUNTIME_DIR=" + s.dir}
		if out, err := cmd.CombinedOutput(); err != nil {
			s.t.Errorf("filch down: %v: %s", err, out)
		}
	})
	s.write("targets.json", s.filch("metrics", "--targets"))
	rules, err := filepath.Abs(filepath.Join(scripts, "rules.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("prometheus.yml", fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: filch\n  file_sd_configs: [{files: [targets.json]}]\n", rules))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	s.api = "http://" + at + "/api/v1/"
	log := &bytes.Buffer{}
	cmd := exec.Command("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", "--web.listen-address="+at)
	cmd.Dir, cmd.Stderr = s.dir, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("cannot start Debian's prometheus: %v; scripts/install-deps test-all", err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("prometheus said:\n%s", log)
		}
	})
}

func (s *site) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// series is one result of a query.
type series struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// query evaluates an expression.
func (s *site) query(expr string) ([]series, error) {
	resp, err := http.Get(s.api + "query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			Result []series `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s", answer.Error)
	}
	return answer.Data.Result, nil
}

// TestPrometheusReadsFourLaunchers evaluates each query of the board and of the rules over
// four launchers that run a bag, and holds the text against promtool.
func TestPrometheusReadsFourLaunchers(t *testing.T) {
	bin, err := rig.Product()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "fm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &site{t: t, dir: dir, bin: bin}
	if out, err := exec.Command("promtool", "check", "rules", filepath.Join(scripts, "rules.yaml")).CombinedOutput(); err != nil {
		t.Fatalf("promtool check rules: %v\n%s", err, out)
	}
	s.start()
	s.filch("submit", "--array", "1-2000", "--", "sleep", "0.1")
	for end := time.Now().Add(scrapedWait); ; {
		got, err := s.query("sum(rate(filch_task_attempts_ended_total[1m])) > 0 and sum(rate(filch_steal_tries_total[1m])) > 0 and sum(increase(filch_first_steals_total[5m])) > 0 and count(rate(filch_loop_turns_total[1m])) == 4")
		if err == nil && len(got) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("Prometheus did not see tasks end on four nodes within %v: %v, %v", scrapedWait, got, err)
		}
		<-time.After(200 * time.Millisecond)
	}

	for _, q := range boardQueries(t) {
		got, err := s.query(q)
		if err != nil || len(got) == 0 {
			t.Errorf("the board's query %s: got %d results, %v", q, len(got), err)
		}
	}
	for _, q := range ruleQueries(t, s) {
		if _, err := s.query(q); err != nil {
			t.Errorf("the rule %s: %v", q, err)
		}
	}
	for name, want := range map[string]string{"sum(filch_slots)": "4", "count(filch_node_info)": "4", `max(filch_members{state="up"})`: "4", "count(filch:slots_used:ratio)": "1"} {
		got, err := s.query(name)
		if err != nil || len(got) != 1 || got[0].Value[1] != want {
			t.Errorf("%s is %v, %v, want %s", name, got, err, want)
		}
	}
	s.lint()
}

// boardQueries are the queries of the board.
func boardQueries(t *testing.T) (queries []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(scripts, "board.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			queries = append(queries, q.Expr)
		}
	}
	if len(queries) == 0 {
		t.Fatal("the board has no queries")
	}
	return queries
}

// ruleQueries are the queries of the rules that Prometheus loaded, each of which is healthy.
func ruleQueries(t *testing.T, s *site) (queries []string) {
	t.Helper()
	resp, err := http.Get(s.api + "rules")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct {
					Name, Query, LastError string
				}
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			queries = append(queries, r.Query)
			if r.LastError != "" {
				t.Errorf("the rule %s: %s", r.Name, r.LastError)
			}
		}
	}
	if len(queries) == 0 {
		t.Fatal("Prometheus loaded no rules")
	}
	return queries
}

// lint holds the text of a launcher against promtool.
func (s *site) lint() {
	s.t.Helper()
	fields := strings.Fields(s.filch("metrics")) // NODE METRICS n1 URL ...
	resp, err := http.Get(fields[3])
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = resp.Body
	if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		s.t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
