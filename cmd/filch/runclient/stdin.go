package runclient

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// pump passes standard input on, never more bytes than the ranks asked for and
// nothing before they ask, so that unwanted input stays unread as far as
// possible.
type pump struct {
	run *client.Run
	in  *os.File

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	want    uint64 // bytes that the ranks asked for in all
	nobody  bool
	resumed int // continue signals seen
	started bool
}

func newPump(run *client.Run, in *os.File) *pump {
	p := &pump{run: run, in: in}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// onCredit takes the number of bytes that the ranks ask for. The first call starts
// the reading.
func (p *pump) onCredit(place wire.Place) {
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

// resume retries a terminal that could not be read from the background.
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
		case errors.Is(err, syscall.EIO) && ui.IsTerminal(p.in):
			p.awaitResume(resumed) // this process is in the background
		case errors.Is(err, io.EOF), errors.Is(err, syscall.EBADF):
			_ = p.run.Stdin(nil, true)
			return
		default:
			ui.Warn("cannot read standard input: " + err.Error())
			_ = p.run.Stdin(nil, true)
			return
		}
	}
}

// await waits until the ranks ask for more than sent bytes.
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
