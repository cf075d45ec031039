package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes in memory, without buffers: a browser that
// does not read stops the server at once.
type pipes struct{ conns chan net.Conn }

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipes) Close() error {
	select {
	case <-p.conns:
	default:
		close(p.conns)
	}
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

// site is a server and its listener.
type site struct {
	*Server
	t     *testing.T
	pipes *pipes
	looks int
	rests int  // looks before a rest
	quiet bool // nothing happens
	event chan struct{}
}

// serve starts a server whose looks have size bytes and whose commands are of the shell; stop
// ends the server.
func serve(t *testing.T, size int, script string) (s *site, stop func()) {
	t.Helper()
	s = &site{t: t, pipes: &pipes{conns: make(chan net.Conn)}, event: make(chan struct{})}
	view := []byte(`"` + strings.Repeat("x", size) + `"`)
	s.Server = newServer(Config{
		Instance: "brave-otter",
		Look: func() (func(bool) ([]byte, error), bool, error) {
			s.looks++
			return func(rests bool) ([]byte, error) {
				if rests {
					s.rests++
				}
				return view, nil
			}, s.quiet, nil
		},
		Rest: func() func(context.Context) {
			return func(ctx context.Context) {
				select {
				case <-s.event:
				case <-ctx.Done():
				}
			}
		},
		Command: func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
		},
		Start: func(c *exec.Cmd) (func(), error) { return func() {}, c.Start() },
	}, s.pipes)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// send sends a request on a connection of its own.
func (s *site) send(method, path, host string) net.Conn {
	s.t.Helper()
	there, conn := net.Pipe()
	s.pipes.conns <- there
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, path, host); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// ask sends a request, and reads the head of the answer.
func (s *site) ask(method, path, host string) (conn net.Conn, r *http.Response) {
	s.t.Helper()
	conn = s.send(method, path, host)
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return conn, r
}

// get reads a path behind the token.
func (s *site) get(path string) (code int, text string) {
	s.t.Helper()
	conn, r := s.ask("GET", "/"+s.token+"/"+path, "127.0.0.1:8080")
	defer conn.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestNothingWithoutTheToken(t *testing.T) {
	s, stop := serve(t, 10, "echo no")
	defer stop()
	good := "/" + s.token + "/"
	for _, c := range []struct {
		method, path, host string
		code               int
	}{
		{"GET", good, "127.0.0.1:8080", 200},
		{"GET", good, "localhost:9999", 200}, // a tunnel
		{"GET", good, "[::1]:9999", 200},
		{"GET", good + "app.js", "127.0.0.1:8080", 200},
		{"GET", "/" + s.token, "127.0.0.1:8080", 302},
		{"GET", good, "evil.example", 404}, // DNS that names loopback
		{"GET", good, "127.0.0.1.evil.example:8080", 404},
		{"GET", good, "0.0.0.0:8080", 404},
		{"POST", good, "127.0.0.1:8080", 404},
		{"PUT", good + "data/info?job=1", "127.0.0.1:8080", 404},
		{"GET", "/", "127.0.0.1:8080", 404},
		{"GET", "//", "127.0.0.1:8080", 404},
		{"GET", "/app.js", "127.0.0.1:8080", 404},
		{"GET", "/live", "127.0.0.1:8080", 404},
		{"GET", "/data/info?job=1", "127.0.0.1:8080", 404},
		{"GET", good[:len(good)-2] + "/", "127.0.0.1:8080", 404},
		{"GET", good[:len(good)-1] + "A/", "127.0.0.1:8080", 404},
		{"GET", strings.ToLower(good), "127.0.0.1:8080", 404},
		{"GET", "/x" + good, "127.0.0.1:8080", 404},
	} {
		conn, r := s.ask(c.method, c.path, c.host)
		if r.StatusCode != c.code {
			t.Errorf("%s %s at %s: got %d, want %d", c.method, c.path, c.host, r.StatusCode, c.code)
		}
		if c.code == 404 {
			if b, err := io.ReadAll(r.Body); err != nil || len(b) > 0 || !r.Close || r.Header.Get("Content-Security-Policy") != "" {
				t.Errorf("%s %s at %s: got %d bytes, %v, and the policy %q", c.method, c.path, c.host, len(b), err, r.Header.Get("Content-Security-Policy"))
			}
		}
		conn.Close()
	}
	if len(s.token) < 26 { // of 32 letters: 130 bits
		t.Errorf("the token has %d letters", len(s.token))
	}
	other, stopOther := serve(t, 10, "")
	defer stopOther()
	if other.token == s.token {
		t.Error("two servers have one token")
	}
}

func TestHeadersKeepThePageApart(t *testing.T) {
	s, stop := serve(t, 10, "echo '{}'")
	defer stop()
	for _, path := range []string{"", "app.js", "style.css", "data/info?job=1", "data/timeline?job=1"} {
		conn, r := s.ask("GET", "/"+s.token+"/"+path, "127.0.0.1:8080")
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; script-src 'self'",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := r.Header.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if p := r.Header.Get("Content-Security-Policy"); strings.Contains(p, "unsafe") || !strings.Contains(p, "frame-ancestors 'none'") {
			t.Errorf("%s: the policy is %q", path, p)
		}
		conn.Close()
	}
}

// Browsers share one look a second, and without a browser nobody looks.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := serve(t, 10, "")
		defer stop()
		time.Sleep(time.Minute)
		if s.looks != 0 {
			t.Errorf("%d looks without a browser", s.looks)
		}
		var conns []net.Conn
		for range 8 {
			conn, r := s.ask("GET", "/"+s.token+"/live", "127.0.0.1:8080")
			go func() { _, _ = io.Copy(io.Discard, r.Body) }()
			conns = append(conns, conn)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s.looks < 10 || s.looks > 11 || s.Browsers() != 8 {
			t.Errorf("%d looks in 10 s for %d browsers", s.looks, s.Browsers())
		}
		for _, c := range conns {
			c.Close()
		}
		time.Sleep(2 * time.Second)
		before := s.looks
		time.Sleep(time.Minute)
		if s.looks != before || s.Browsers() != 0 {
			t.Errorf("%d looks and %d browsers after all have left", s.looks-before, s.Browsers())
		}
	})
}

// While nothing happens, nobody looks: two looks come before the rest, and two after each event.
// A page that opens meanwhile gets the last look.
func TestNobodyLooksWhileNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := serve(t, 10, "")
		defer stop()
		s.quiet = true
		var views atomic.Int32
		open := func() net.Conn {
			conn, r := s.ask("GET", "/"+s.token+"/live", "127.0.0.1:8080")
			go func() {
				lines := bufio.NewReader(r.Body)
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					if strings.HasPrefix(line, "event: view") {
						views.Add(1)
					}
				}
			}()
			return conn
		}
		defer open().Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.looks != 2 || s.rests != 1 || views.Load() != 2 {
			t.Fatalf("%d looks, %d of them before a rest, and %d views in an hour without an event", s.looks, s.rests, views.Load())
		}
		s.event <- struct{}{}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s.looks != 4 || s.rests != 2 || views.Load() != 4 {
			t.Fatalf("%d looks, %d of them before a rest, and %d views after an event", s.looks, s.rests, views.Load())
		}
		defer open().Close()
		synctest.Wait()
		if s.looks != 4 || views.Load() != 5 {
			t.Errorf("%d looks and %d views after a second page came", s.looks, views.Load())
		}
		s.quiet = false
		s.event <- struct{}{}
		time.Sleep(10*lookEvery + lookEvery/2)
		synctest.Wait()
		if s.looks < 13 || s.looks > 15 {
			t.Errorf("%d looks in 10 s while something happens, with 4 before", s.looks)
		}
	})
}

// A browser that does not read misses looks, and is cut off after writeWait. Nothing is queued
// for that browser, and another browser gets each look.
func TestStalledBrowserIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := serve(t, 1<<20, "")
		defer stop()
		stalled, _ := s.ask("GET", "/"+s.token+"/live", "127.0.0.1:8080")
		defer stalled.Close()
		reads, r := s.ask("GET", "/"+s.token+"/live", "127.0.0.1:8080")
		defer reads.Close()
		got := 0
		go func() {
			lines := bufio.NewReaderSize(r.Body, 4<<20)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(line, "data: \"") {
					got++
				}
			}
		}()
		for sec := range int(writeWait/time.Second) + 2 {
			time.Sleep(time.Second)
			synctest.Wait()
			queued := 0
			s.feed.mu.Lock()
			for seat := range s.feed.seats {
				queued += len(seat.news)
			}
			s.feed.mu.Unlock()
			if queued > 1 { // a mark that there is a look, for the browser that stalls
				t.Fatalf("after %d s: %d marks", sec, queued)
			}
		}
		if s.Browsers() != 1 || got < int(writeWait/time.Second) {
			t.Errorf("%d browsers are left, and the other got %d looks in %s", s.Browsers(), got, writeWait)
		}
	})
}

func TestBrowsersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := serve(t, 10, "")
		defer stop()
		var last net.Conn
		for range maxBrowsers {
			conn, r := s.ask("GET", "/"+s.token+"/live", "127.0.0.1:8080")
			defer conn.Close()
			go func() { _, _ = io.Copy(io.Discard, r.Body) }()
			last = conn
		}
		if code, text := s.get("live"); code != 503 || !strings.Contains(text, fmt.Sprint(maxBrowsers)) {
			t.Errorf("the page after %d: got %d, %q", maxBrowsers, code, text)
		}
		last.Close()
		time.Sleep(2 * lookEvery)
		conn, r := s.ask("GET", "/"+s.token+"/live", "127.0.0.1:8080")
		defer conn.Close()
		if r.StatusCode != 200 {
			t.Errorf("after a page was closed: got %d", r.StatusCode)
		}
	})
}

// The page needs nothing from elsewhere, and makes no HTML out of texts.
func TestPageStandsAlone(t *testing.T) {
	n := 0
	err := fs.WalkDir(pages, "page", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		b, err := pages.ReadFile(path)
		for _, bad := range []string{"http:", "https:", "//cdn", "url(", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "srcdoc", "method: \"POST\""} {
			if strings.Contains(string(b), bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
		return err
	})
	if err != nil || n < 10 {
		t.Errorf("%d files: %v", n, err)
	}
}
