package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/client"
)

// Launcher is the launcher that serves the clients.
type Launcher struct {
	Node     filch.NodeName
	Instance string
	Build    string
	Socket   string // the file name
	// Incarnation of the launcher: another number means that the launcher began anew.
	Incarnation uint64
	// Dial makes a connection to the launcher itself.
	Dial func() (*client.Client, error)
	// AwaitChange waits until a record has another version, or ctx ends.
	AwaitChange func(ctx context.Context, seen map[dht.Key]dht.Version)
}

// idleMax bounds the connections to the launcher that a session keeps for later requests.
const idleMax = 4

// session is the connection of one client.
type session struct {
	launcher Launcher
	out      *writer
	work     sync.WaitGroup
	waiter   sync.WaitGroup // of linger

	mu   sync.Mutex // guards the fields below
	cond *sync.Cond // held has shrunk
	open map[string]context.CancelFunc
	held int
	idle []*client.Client
	over bool // the connection has ended
}

// Serve speaks with a client until the client closes the connection or breaks the protocol. A
// client that closes its own direction alone gets the answers of the requests under way. The error
// says how the client broke the protocol.
func Serve(sock *net.UnixConn, l Launcher) error { return serve(sock, l, queuedMax) }

func serve(sock *net.UnixConn, l Launcher, queued int) error {
	ctx, stop := context.WithCancel(context.Background())
	s := &session{launcher: l, out: newWriter(sock, queued), open: map[string]context.CancelFunc{}}
	s.cond = sync.NewCond(&s.mu)
	err := s.read(ctx, sock)
	if err == nil && !s.out.isShut() {
		s.linger(sock)
	}
	stop()
	s.closeIdle()
	s.work.Wait()
	s.waiter.Wait()
	s.out.close()
	_ = sock.Close()
	return err
}

// read takes lines until the connection ends.
func (s *session) read(ctx context.Context, sock io.Reader) error {
	in := bufio.NewReaderSize(sock, 16<<10)
	for {
		line, err := readLine(in)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.As(err, new(interface{ Timeout() bool })) {
				return nil
			}
			var told *filch.Error
			if errors.As(err, &told) {
				s.out.send(reply{ID: null, Error: failed(err)})
				return err
			}
			return nil // the client is gone
		}
		if len(line) > 0 {
			s.take(ctx, line)
		}
		if !s.fits() {
			return nil
		}
	}
}

// linger waits until the requests are done or the client has gone, after the last line.
func (s *session) linger(sock *net.UnixConn) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return
	}
	s.waiter.Go(func() {
		s.work.Wait()
		_ = sock.SetReadDeadline(time.Now())
	})
	_ = raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(p, 0)
		return err != nil && err != unix.EINTR || p[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
}

// readLine reads a line without its end.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return trim(line), nil
		case len(line) > lineMax:
			return nil, filch.Errorf(filch.Invalid, "a line is longer than %d bytes", lineMax).WithHint("an open job takes more tasks with the op add")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err // an unfinished line is no request
		}
	}
}

func trim(line []byte) []byte {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}

// take begins the request of a line.
func (s *session) take(ctx context.Context, line []byte) {
	q, err := decode(line)
	if err != nil {
		s.out.send(reply{ID: q.id, Error: failed(err)})
		return
	}
	ctx, stop := context.WithCancel(ctx)
	key := string(q.id)
	s.mu.Lock()
	switch {
	case s.open[key] != nil:
		err = filch.Errorf(filch.Invalid, "a request with the id %s is under way", key).WithHint("each request has an id of its own")
	case len(s.open) >= openMax:
		err = filch.Errorf(filch.Busy, "%d requests are under way, at most %d may be", len(s.open), openMax).WithHint("wait for answers, or end a request with the op stop")
	default:
		s.open[key] = stop
		s.held += q.size
	}
	s.mu.Unlock()
	if err != nil {
		stop()
		s.out.send(reply{ID: q.id, Error: failed(err)})
		return
	}
	s.work.Go(func() {
		result, err := q.op.do(ctx, &call{s, q.id}, q.args)
		stop()
		s.mu.Lock()
		delete(s.open, key)
		s.held -= q.size
		s.cond.Broadcast()
		s.mu.Unlock()
		if err != nil {
			s.out.send(reply{ID: q.id, Error: failed(err)})
		} else {
			s.out.send(reply{ID: q.id, Result: result})
		}
	})
}

// fits waits until the lines of the requests under way leave room for another line. False means
// that the client was cut off.
func (s *session) fits() bool {
	s.mu.Lock()
	for s.held > heldMax-lineMax {
		s.cond.Wait()
	}
	s.mu.Unlock()
	return !s.out.isShut()
}

// stop ends the request with an id.
func (s *session) stop(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.open[key]
	if end != nil {
		end()
	}
	return end != nil
}

// with calls f with a connection to the launcher. The end of ctx closes the connection, and so
// ends what f waits for.
func (s *session) with(ctx context.Context, f func(c *client.Client) error) error {
	c := s.borrow()
	if c == nil {
		var err error
		if c, err = s.launcher.Dial(); err != nil {
			return err
		}
	}
	unhook := context.AfterFunc(ctx, c.Close)
	err := f(c)
	whole := unhook()
	s.mu.Lock()
	defer s.mu.Unlock()
	if whole && err == nil && len(s.idle) < idleMax && !s.over {
		s.idle = append(s.idle, c)
	} else {
		c.Close()
	}
	if err != nil && ctx.Err() != nil {
		return filch.Errorf(filch.Canceled, "the request was stopped")
	}
	return err
}

// borrow returns an idle connection, or nil.
func (s *session) borrow() (c *client.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		c, s.idle = s.idle[n-1], s.idle[:n-1]
	}
	return c
}

// closeIdle closes the idle connections to the launcher; the requests close theirs.
func (s *session) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.idle {
		c.Close()
	}
	s.idle, s.over = nil, true
}
