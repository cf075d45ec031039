//go:build root

package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Sizes and limits of TestManyClients.
const (
	launchers   = 64
	screens     = 20
	pages       = 8
	looksEach   = 8                // that each client must get
	looksWait   = 90 * time.Second // in all; a look a second on a quiet machine
	askWait     = 10 * time.Second
	memoryMore  = 32 << 20 // bytes that the serving launcher may take for these clients
	answersPart = 0.9      // of the nodes must be in a look, on a machine with other work
)

// TestManyClients has 20 screens of filch top and 8 pages of the dashboard look at 64 launchers,
// all through one launcher, while tasks run and one more page stalls.
func TestManyClients(t *testing.T) {
	s := newSite(t, "--nodes", strconv.Itoa(launchers), "--slots", "2")
	s.filch("submit", "--array", "1-100000", "--builtin", "sleep:1s")
	url := s.filch("dashboard")
	dir := s.serving()
	before := memoryOf(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), looksWait)
	defer cancel()
	stalled := s.page(ctx, url) // nobody reads
	defer stalled.Body.Close()
	var work sync.WaitGroup
	for range pages {
		work.Go(func() { s.watch(ctx, url) })
	}
	for range screens {
		work.Go(func() { s.screen(ctx, dir) })
	}
	work.Wait()
	after := memoryOf(t, dir)
	t.Logf("%d screens and %d pages: the launcher has %d MiB, before %d MiB", screens, pages, after>>20, before>>20)
	if after > before+memoryMore {
		t.Errorf("the launcher has %d bytes, before %d: more than %d for its clients", after, before, memoryMore)
	}
}

// serving is the folder of the launcher that serves the dashboard.
func (s *site) serving() place.Dir {
	s.t.Helper()
	for _, d := range place.Nodes(filepath.Join(s.dir, "filch-"+strconv.Itoa(os.Getuid())), "fair-heron") {
		c, err := client.DialDir(d, "test")
		if err != nil {
			s.t.Fatal(err)
		}
		b, err := c.Query(askWait, wire.VerbStats)
		c.Close()
		var st wire.StatsInfo
		if err != nil || json.Unmarshal(b, &st) != nil {
			s.t.Fatal(err)
		}
		if log, err := os.ReadFile(d.Log()); err == nil && bytes.Contains(log, []byte("the dashboard is served")) {
			return d
		}
	}
	s.t.Fatal("no launcher serves the dashboard")
	return place.Dir{}
}

// page opens the looks of the dashboard.
func (s *site) page(ctx context.Context, url string) *http.Response {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"live", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{} // a connection of its own
	resp, err := transport.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Errorf("cannot open the looks: %v, %v", resp, err)
		return &http.Response{Body: http.NoBody}
	}
	return resp
}

// look is what a client checks of a look.
type look struct {
	busy  float64
	nodes int
}

func readLook(b []byte) (l look, err error) {
	var v wire.Overview
	if err := json.Unmarshal(b, &v); err != nil {
		return l, err
	}
	if len(v.Nodes) != launchers || len(v.Jobs) != 1 {
		return l, fmt.Errorf("a look has %d nodes and %d jobs", len(v.Nodes), len(v.Jobs))
	}
	for i := range v.Nodes {
		if !v.Nodes[i].Silent {
			l.nodes++
		}
		l.busy += v.Nodes[i].Work.BusySecs
	}
	return l, nil
}

// watch reads looks as a page does, until looksEach of them were fresh: later than the one before.
func (s *site) watch(ctx context.Context, url string) {
	resp := s.page(ctx, url)
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 1<<20)
	s.fresh("a page", func() ([]byte, error) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return nil, err
			}
			if data, ok := strings.CutPrefix(line, "data: {\"self\""); ok {
				return []byte(`{"self"` + data), nil
			}
		}
	})
}

// screen asks once a second, as filch top does.
func (s *site) screen(ctx context.Context, dir place.Dir) {
	c, err := client.DialDir(dir, "test")
	if err != nil {
		s.t.Error(err)
		return
	}
	defer c.Close()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	s.fresh("a screen", func() ([]byte, error) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return c.Query(askWait, wire.VerbGlance)
	})
}

// fresh reads until looksEach looks were fresh.
func (s *site) fresh(who string, next func() ([]byte, error)) {
	last, whole := look{}, 0
	for got := 0; got < looksEach; {
		b, err := next()
		var l look
		if err == nil {
			l, err = readLook(b)
		}
		if err != nil {
			s.t.Errorf("%s got %d looks, and then: %v", who, got, err)
			return
		}
		if l.busy > last.busy {
			got++
		}
		if float64(l.nodes) >= answersPart*launchers {
			whole++
		}
		last = l
	}
	if whole < looksEach/2 {
		s.t.Errorf("%s got %d looks with %.0f %% of the nodes, of %d", who, whole, 100*answersPart, looksEach)
	}
}

// memoryOf is the resident memory of a launcher.
func memoryOf(t *testing.T, dir place.Dir) int64 {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(dir.Path(), "launcher.pid"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	var kb int64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
