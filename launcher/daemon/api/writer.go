package api

import (
	"bytes"
	"encoding/json"
	"net"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
)

// How long a client has to read what is queued when the connection ends, and what a client that
// was cut off has begun to read.
const (
	lastWord = 2 * time.Second
	cutWord  = 10 * time.Second
)

// writer queues the lines for a client, and writes them on a goroutine of its own. A client
// that leaves [queuedMax] bytes unread is cut off: the lines that are not begun are dropped, and
// the last line says why.
type writer struct {
	sock *net.UnixConn
	most int
	done chan struct{} // closes with the goroutine

	mu    sync.Mutex // guards the fields below
	cond  *sync.Cond // the queue or closed has changed
	queue []byte
	begun int  // bytes of the queue that are being written
	shut  bool // no line is queued any more
	cut   bool // the client was cut off
}

func newWriter(sock *net.UnixConn, most int) *writer {
	w := &writer{sock: sock, most: most, done: make(chan struct{})}
	w.cond = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// send queues a line.
func (w *writer) send(r reply) {
	r.V = version
	line, err := json.Marshal(&r)
	if err != nil {
		line, _ = json.Marshal(&reply{V: version, ID: r.ID, Error: failed(err)})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut {
		return
	}
	if len(w.queue)+len(line) > w.most && len(w.queue) > 0 {
		w.cut, w.shut = true, true
		line, _ = json.Marshal(&reply{V: version, ID: null, Error: failed(filch.Errorf(filch.Busy, "cut off: %d bytes of answers wait for the client to read, at most %d may", len(w.queue), w.most).
			WithHint("read answers while requests are under way"))})
		w.queue = w.queue[:w.begun+bytes.IndexByte(w.queue[w.begun:], '\n')+1]
		_ = w.sock.SetWriteDeadline(time.Now().Add(cutWord))
	}
	w.queue = append(append(w.queue, line...), '\n')
	w.cond.Broadcast()
}

// room waits until at most half of the queue is used: a stream of news waits for its reader.
// False means that the connection ends.
func (w *writer) room() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > w.most/2 && !w.shut {
		w.cond.Wait()
	}
	return !w.shut
}

// isShut reports whether no line goes to the client any more.
func (w *writer) isShut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shut
}

// run writes until the queue is shut and empty, or the client is gone.
func (w *writer) run() {
	defer close(w.done)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.queue) == 0 && !w.shut {
			w.cond.Wait()
		}
		if len(w.queue) == 0 {
			return
		}
		w.begun = min(len(w.queue), partMax)
		part := w.queue[:w.begun]
		w.mu.Unlock()
		_, err := w.sock.Write(part)
		w.mu.Lock()
		w.queue, w.begun = w.queue[w.begun:], 0
		if err != nil {
			w.queue, w.shut = nil, true
		}
		w.cond.Broadcast()
	}
}

// partMax is how much of the queue is written at a time, so that room is seen soon.
const partMax = 64 << 10

// close writes what is queued, for a while, and ends the goroutine.
func (w *writer) close() {
	w.mu.Lock()
	if !w.cut {
		_ = w.sock.SetWriteDeadline(time.Now().Add(lastWord))
	}
	w.shut = true
	w.cond.Broadcast()
	w.mu.Unlock()
	<-w.done
}
