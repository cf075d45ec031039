package main

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// pump passes standard input on, never more than is welcome and nothing
// before it is, so that what the ranks do not want stays unread as far as it
// can.
type pump struct {
	run *client.Run
	in  *os.File

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	want    uint64 // bytes that are welcome in all
	nobody  bool
	resumed int // continue signals seen
	started bool
}

func newPump(run *client.Run, in *os.File) *pump {
	p := &pump{run: run, in: in}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// welcome hears how much is welcome; the first time starts the reading.
func (p *pump) welcome(place wire.Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if place.Offset == wire.NoStdin {
		p.nobody = true
	} else {
		p.want = max(p.want, place.Offset)
	}
	p.changed.Broadcast()
	if !p.started && !p.nobody {
		p.started = true
		go p.loop()
	}
}

// resume tries a terminal again that could not be read from the background.
func (p *pump) resume() {
	p.mu.Lock()
	p.resumed++
	p.changed.Broadcast()
	p.mu.Unlock()
}

func (p *pump) loop() {
	buf := make([]byte, wire.MaxChunk)
	sent := uint64(0)
	for {
		room, resumed, ok := p.await(sent)
		if !ok {
			return
		}
		n, err := p.in.Read(buf[:min(uint64(len(buf)), room)])
		if n > 0 {
			sent += uint64(n)
			if p.run.Stdin(buf[:n], false) != nil {
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, syscall.EIO) && isTerminal(p.in):
			p.awaitResume(resumed) // we are in the background
		case errors.Is(err, io.EOF), errors.Is(err, syscall.EBADF):
			_ = p.run.Stdin(nil, true)
			return
		default:
			warn("cannot read standard input: " + err.Error())
			_ = p.run.Stdin(nil, true)
			return
		}
	}
}

// await waits until more than sent bytes are welcome.
func (p *pump) await(sent uint64) (room uint64, resumed int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.nobody && p.want <= sent {
		p.changed.Wait()
	}
	return p.want - sent, p.resumed, !p.nobody
}

func (p *pump) awaitResume(resumed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.resumed == resumed {
		p.changed.Wait()
	}
}
