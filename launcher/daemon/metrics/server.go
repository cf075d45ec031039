package metrics

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/daemon/query"
)

// Limits of the server.
const (
	maxConns   = 16      // open connections; further ones wait in the kernel
	maxScrapes = 2       // at a time; a third gets 503
	maxHeader  = 8 << 10 // bytes of a request's header
	headerWait = 5 * time.Second
	scrapeWait = 5 * time.Second // for a reading; then 503
	writeWait  = 15 * time.Second
	idleWait   = 2 * time.Minute
	portsToTry = 1024 // from the port asked for, when several launchers share a machine
)

// path is the path of the metrics.
const path = "/metrics"

// tokenOf returns the bearer token of an instance, 64 hexadecimal digits, drawn from the
// instance's secret. All nodes of an instance have the same token.
func tokenOf(secret []byte) (string, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "filch metrics", sha256.Size)
	return hex.EncodeToString(key), err
}

// Config says where a server listens, and who may read.
type Config struct {
	Addr   string // host:port; port 0 is any free port
	Host   string // by which other machines reach this one; for Addr 0.0.0.0 or [::]
	Secret []byte // of the instance, for the token
	Shared bool   // other launchers of this machine have the same Addr: take the next free port
	Read   func() (*query.Reading, error)
}

// Server answers scrapes.
type Server struct {
	http     http.Server
	listener net.Listener
	url      string
	token    string // "": none is needed
}

// Listen opens the address. Listen fails with kind Invalid for a wrong address, and with
// kind Unavailable for an address that cannot be opened.
func Listen(cfg Config) (*Server, error) {
	at, err := netip.ParseAddrPort(cfg.Addr)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "the address of the metrics, %s, is no IP:PORT", strconv.Quote(cfg.Addr)).WithHint("127.0.0.1:0 takes a free port")
	}
	l, err := open(at.Addr(), at.Port(), cfg.Shared)
	if err != nil {
		return nil, filch.Errorf(filch.Unavailable, "cannot serve metrics on %s: %s", cfg.Addr, reason(err)).
			WithHint("port 0 takes a free port; filch metrics shows the address")
	}
	token, err := tokenOf(cfg.Secret)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &Server{listener: netutil.LimitListener(l, maxConns), url: "http://" + reached(l.Addr(), cfg.Host) + path}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(cfg.Read), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	scrape := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes, Timeout: scrapeWait, EnableOpenMetrics: true,
	})
	mux := http.NewServeMux()
	mux.Handle("GET "+path, scrape)
	var handler http.Handler = mux
	if !at.Addr().Unmap().IsLoopback() {
		s.token, handler = token, withToken(token, mux)
	}
	s.http = http.Server{
		Handler: handler, ReadHeaderTimeout: headerWait, ReadTimeout: headerWait, WriteTimeout: writeWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeader,
	}
	return s, nil
}

// URL returns the address of the metrics.
func (s *Server) URL() string { return s.url }

// Token returns the bearer token that a request must carry, or "" where none is needed.
func (s *Server) Token() string { return s.token }

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close releases the address of a server that never served.
func (s *Server) Close() error { return s.listener.Close() }

// open listens on a port, or on the first free one from there on.
func open(host netip.Addr, port uint16, shared bool) (l net.Listener, err error) {
	network := "tcp6"
	if host.Is4() {
		network = "tcp4"
	}
	for i := range portsToTry {
		at := int(port) + i
		if at > 1<<16-1 {
			break
		}
		l, err = net.Listen(network, netip.AddrPortFrom(host, uint16(at)).String())
		if err == nil || !shared || port == 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, err
}

// reached is an address under which other machines reach the listener.
func reached(at net.Addr, host string) string {
	ap, err := netip.ParseAddrPort(at.String())
	if err != nil || !ap.Addr().IsUnspecified() || host == "" {
		return at.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(ap.Port())))
}

// reason is the innermost error: the address stands before it already.
func reason(err error) string {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

// withToken answers only requests with the token.
func withToken(token string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
