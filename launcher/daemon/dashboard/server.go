package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/filch-hpc/filch"
)

// Limits of the server.
const (
	maxBrowsers = 16      // pages that are open at a time; a further page gets 503, and tries again
	maxConns    = 64      // open connections; further ones wait in the kernel
	maxCommands = 3       // at a time; a further request gets 503, and the page tries again
	maxHeader   = 8 << 10 // bytes of a request's header
	headerWait  = 5 * time.Second
	idleWait    = time.Minute
	// writeWait bounds the wait for a browser that does not read. Meanwhile the browser costs
	// the buffers of its socket.
	writeWait = 10 * time.Second
)

//go:embed page
var pages embed.FS

// Config says what a server shows.
type Config struct {
	Instance string
	// Look looks at all nodes, and reports whether nothing happens there. The view is JSON without
	// line ends, which says with rests that the next look comes only after a change. Look is
	// called by one goroutine.
	Look func() (view func(rests bool) ([]byte, error), quiet bool, err error)
	// Rest begins to wait for a change, and await waits for a change since then, for a minute or
	// so. A look after the return of Rest shows all changes before the call.
	Rest func() (await func(ctx context.Context))
	// Command makes a command of filch for the launcher's instance.
	Command func(ctx context.Context, args ...string) *exec.Cmd
	// Start starts a command, and ended is called once the command was waited for.
	Start func(*exec.Cmd) (ended func(), err error)
}

// Server serves the dashboard.
type Server struct {
	cfg      Config
	http     http.Server
	listener net.Listener
	port     int
	token    string
	feed     *feed
	commands chan struct{}  // a token for each command under way
	work     sync.WaitGroup // requests
}

// Listen opens a free port of loopback.
func Listen(cfg Config) (*Server, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, filch.Errorf(filch.Unavailable, "cannot open a port of 127.0.0.1 for the dashboard: %s", err.Error())
	}
	return newServer(cfg, l), nil
}

func newServer(cfg Config, l net.Listener) *Server {
	s := &Server{cfg: cfg, listener: netutil.LimitListener(l, maxConns), token: rand.Text(), feed: newFeed(cfg.Look, cfg.Rest), commands: make(chan struct{}, maxCommands)}
	if at, ok := l.Addr().(*net.TCPAddr); ok {
		s.port = at.Port
	}
	s.http = http.Server{Handler: s.guard(s.routes()), ReadHeaderTimeout: headerWait, ReadTimeout: headerWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0)} // strangers must not fill a log
	return s
}

// URL returns the address of the page, with the token.
func (s *Server) URL() string {
	return "http://127.0.0.1:" + strconv.Itoa(s.port) + "/" + s.token + "/"
}

// Serve answers until ctx ends. Requests and commands under way have ended when Serve returns.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	looks := make(chan struct{})
	go func() { defer close(looks); s.feed.run(ctx) }()
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer func() { stop(); cancel(); <-looks; s.work.Wait() }()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Port returns the port of 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Close releases the port of a server that never served.
func (s *Server) Close() error { return s.listener.Close() }

// Browsers returns the number of pages that are open.
func (s *Server) Browsers() int { return s.feed.count() }

// guard answers only requests with the token, and with a name of this machine as the host.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.work.Add(1)
		defer s.work.Done()
		token, rest, whole := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		given := subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1
		if !given || !isLocal(r.Host) || r.Method != http.MethodGet {
			w.Header().Set("Connection", "close")
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		if !whole { // the page names its parts from here
			http.Redirect(w, r, "/"+token+"/", http.StatusFound)
			return
		}
		r.URL.Path = "/" + rest
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether a host is a name of this machine. The port may be that of a tunnel.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "127.0.0.1" || host == "localhost" || host == "::1" || host == "[::1]"
}

func (s *Server) routes() http.Handler {
	page, err := fs.Sub(pages, "page")
	if err != nil {
		panic(err) // the page is embedded
	}
	mux := http.NewServeMux()
	files := http.FileServerFS(page)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.within(w, writeWait)
		if name := strings.TrimPrefix(r.URL.Path, "/"); name != "" {
			if _, err := fs.Stat(page, name); err != nil {
				s.refuse(w, http.StatusNotFound, "the dashboard has no page of that name")
				return
			}
		}
		files.ServeHTTP(w, r)
	})
	mux.HandleFunc("/live", s.live)
	for path, c := range commands {
		mux.HandleFunc("/data/"+path, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, &c) })
	}
	return mux
}

// within sets the deadline of everything that is written to a browser from here on.
func (*Server) within(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}
