package metrics

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/query"
	"github.com/filch-hpc/filch/launcher/wire"
)

func reading() (*query.Reading, error) {
	return &query.Reading{
		Slots: launcher.SlotInfo{Slots: 4, Free: 1, Running: 3},
		Work:  launcher.Work{Ready: 7, Ended: 5},
		Stats: wire.StatsInfo{Node: "n1", Counts: map[string]uint64{"messages_in": 9, "submissions": 2}, Sent: map[string]uint64{"mtc.Steal": 3}},
		Build: "1 \"quoted\"\n", Members: map[string]int{"up": 3, "dead": 1},
	}, nil
}

// serve starts a server that ends with the test.
func serve(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil { // the context of the test has ended
			t.Error(err)
		}
	})
	return s
}

// get reads a URL: the status, the type, the text.
func get(t *testing.T, url string, header ...string) (code int, kind, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

func TestAnswerIsOpenMetrics(t *testing.T) {
	s := serve(t, Config{Addr: "127.0.0.1:0", Read: reading})
	code, kind, text := get(t, s.URL(), "Accept", "application/openmetrics-text; version=1.0.0")
	if code != http.StatusOK || !strings.HasPrefix(kind, "application/openmetrics-text; version=1.0.0") || !strings.HasSuffix(text, "# EOF\n") {
		t.Fatalf("got %d, %s, %q", code, kind, text[max(0, len(text)-80):])
	}
	for _, want := range []string{
		"# TYPE filch_messages counter\n", "filch_messages_total{direction=\"in\"} 9.0\n", "filch_slots_by_state{state=\"running\"} 3.0\n",
		"filch_members{state=\"dead\"} 1.0\n", "filch_tasks{state=\"ready\"} 7.0\n", "filch_messages_sent_total{kind=\"mtc.Steal\"} 3.0\n",
		`filch_node_info{build="1 \"quoted\"\n",node="n1"} 1.0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if _, kind, text := get(t, s.URL()); !strings.HasPrefix(kind, "text/plain; version=0.0.4") || strings.Contains(text, "# EOF") {
		t.Errorf("without Accept: got %s", kind)
	}
}

// The states of slots sum up to the slots: each slot is in one state.
func TestStatesOfSlotsSumUp(t *testing.T) {
	r := &query.Reading{Slots: launcher.SlotInfo{Slots: 28, Free: 1, Held: 2, Lent: 3, Locked: 4, Running: 5, Tasks: 6, Stuck: 7}}
	for i := range families {
		f := &families[i]
		sum := 0.0
		if f.read(r, func(_ string, v float64) { sum += v }); strings.HasPrefix(f.name, "filch_slots") && sum != 28 {
			t.Errorf("%s sums up to %v of 28 slots", f.name, sum)
		}
	}
}

// Names follow the conventions of Prometheus: a counter ends in _total, and only a counter.
func TestNamesAreConventional(t *testing.T) {
	for _, f := range families {
		switch {
		case !strings.HasPrefix(f.name, "filch_"):
			t.Errorf("%s has no prefix", f.name)
		case strings.HasSuffix(f.name, "_total") != (f.kind == prometheus.CounterValue):
			t.Errorf("%s: is a counter: %v", f.name, f.kind == prometheus.CounterValue)
		case !strings.HasSuffix(f.help, "."):
			t.Errorf("%s: the help %q is no sentence", f.name, f.help)
		}
	}
}

func TestAnotherMachineNeedsTheToken(t *testing.T) {
	s := serve(t, Config{Addr: "0.0.0.0:0", Host: "127.0.0.1", Secret: []byte("secret"), Read: reading})
	other, err := tokenOf([]byte("another"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Token() == "" || s.Token() == other {
		t.Fatalf("the token is %q, of another secret %q", s.Token(), other)
	}
	for _, c := range []struct {
		header string
		want   int
	}{{"", 401}, {"Bearer ", 401}, {"Bearer " + other, 401}, {s.Token(), 401}, {"Bearer " + s.Token() + "x", 401}, {"Bearer " + s.Token(), 200}} {
		code, _, text := get(t, s.URL(), "Authorization", c.header)
		if code != c.want || code != 200 && text != "" {
			t.Errorf("with %q: got %d and %d bytes, want %d", c.header, code, len(text), c.want)
		}
	}
	if here := serve(t, Config{Addr: "127.0.0.1:0", Read: reading}); here.Token() != "" {
		t.Errorf("on loopback the token is %q", here.Token())
	}
}

func TestAFailedReadingIsAnError(t *testing.T) {
	s := serve(t, Config{Addr: "127.0.0.1:0", Read: func() (*query.Reading, error) { return nil, errors.New("no turn of the loop") }})
	if code, _, text := get(t, s.URL()); code != http.StatusInternalServerError || !strings.Contains(text, "no turn of the loop") {
		t.Errorf("got %d, %q", code, text)
	}
}

// Scrapes beyond the limit get 503 at once, and do not wait for a launcher that hangs.
func TestScrapesAreBounded(t *testing.T) {
	reads, release := make(chan struct{}), make(chan struct{})
	s := serve(t, Config{Addr: "127.0.0.1:0", Read: func() (*query.Reading, error) {
		reads <- struct{}{}
		<-release
		return reading()
	}})
	codes := make(chan int, maxScrapes)
	for range maxScrapes {
		go func() {
			code, _, _ := get(t, s.URL())
			codes <- code
		}()
		<-reads
	}
	if code, _, _ := get(t, s.URL()); code != http.StatusServiceUnavailable {
		t.Errorf("the scrape after %d: got %d, want 503", maxScrapes, code)
	}
	close(release)
	for range maxScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("got %d", code)
		}
	}
}

func TestAddresses(t *testing.T) {
	first := serve(t, Config{Addr: "127.0.0.1:0", Read: reading})
	taken := strings.TrimSuffix(strings.TrimPrefix(first.URL(), "http://"), path)
	if s := serve(t, Config{Addr: taken, Shared: true, Read: reading}); s.URL() == first.URL() {
		t.Errorf("two servers at %s", s.URL())
	}
	for addr, kind := range map[string]filch.Kind{taken: filch.Unavailable, "9400": filch.Invalid, ":9400": filch.Invalid, "host:1": filch.Invalid, "": filch.Invalid, "192.0.2.1:0": filch.Unavailable} {
		s, err := Listen(Config{Addr: addr, Read: reading})
		var e *filch.Error
		if !errors.As(err, &e) || e.Kind != kind {
			t.Errorf("%q: got %v, %v, want an error of kind %v", addr, s, err, kind)
		}
	}
}
