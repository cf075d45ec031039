package client

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// RedialWait is how long a run looks for its launcher when the connection breaks: as
// long as keepers wait for a launcher to adopt them, and no longer.
const RedialWait = 4 * time.Second

const redialPause = 20 * time.Millisecond

// Run is a submitted job as its client sees the job.
type Run struct {
	Job filch.JobID // 0 until the launcher accepts the job

	build  string
	ended  bool
	within time.Duration    // of the submission, the next look at an answer that does not come
	seen   map[int32]uint64 // output taken, by index of node

	mu     sync.Mutex // guards the fields below
	client *Client
	stdin  uint64   // bytes sent
	kept   []sentIn // stdin that the launcher may not have passed on yet
	closed bool
}

// sentIn is a piece of stdin that a new connection may have to repeat.
type sentIn struct {
	at   uint64
	data []byte
	eof  bool
}

// keptMax bounds the stdin kept for a restarted launcher: ranks never have more input
// outstanding.
const keptMax = 1 << 20

// Submit submits a job. From here on the client belongs to the run.
func (c *Client) Submit(r *launcher.Request) (*Run, error) {
	if err := c.conn.Send(wire.KindSubmit, 0, r); err != nil {
		return nil, filch.Errorf(filch.Unavailable, "cannot submit: %s", err.Error())
	}
	c.submitted, c.name = time.Now(), r.Name
	return &Run{build: c.build, client: c, seen: map[int32]uint64{}, within: c.patience.voice}, nil
}

// Next waits for the next event: a [launcher.Event], a [wire.Output], a [wire.Warn], or
// a [wire.Place] (the job takes stdin up to the Offset; [wire.NoStdin]: no rank reads
// stdin). After [launcher.Ended] or [launcher.Refused] nothing follows. An error says
// that the launcher is gone and the job too.
func (r *Run) Next() (any, error) {
	for {
		c := r.current()
		f, err := c.read(r.within)
		switch {
		case err != nil && os.IsTimeout(err) && r.within < c.patience.wait:
			r.within = c.patience.wait
			return launcher.StillWaiting{Text: fmt.Sprintf("the launcher of %s on %s has not answered for %v", c.Dir.Instance, c.Dir.Node, c.patience.voice)}, nil
		case err != nil && os.IsTimeout(err):
			c.Close()
			return nil, c.unanswered()
		}
		if err != nil {
			if err := r.redial(); err != nil {
				return nil, err
			}
			continue
		}
		v, err := r.take(f)
		if err != nil {
			return nil, err
		}
		if v != nil {
			return v, nil
		}
	}
}

// take decodes a frame; nil means no news.
func (r *Run) take(f wire.Frame) (any, error) {
	switch f.Kind {
	case wire.KindOutput:
		o, err := wire.DecodeOutput(f.Body)
		if err != nil {
			return nil, filch.Errorf(filch.Internal, "%s", err.Error())
		}
		return r.fresh(o), nil
	case wire.KindStdinWant:
		p, err := wire.DecodePlace(f.Body)
		if err != nil {
			return nil, filch.Errorf(filch.Internal, "%s", err.Error())
		}
		return p, nil
	case wire.KindWarn:
		var w wire.Warn
		if err := wire.Unmarshal(f.Body, &w); err != nil {
			return nil, filch.Errorf(filch.Internal, "%s", err.Error())
		}
		return w, nil
	case wire.KindRefusal:
		return nil, wire.DecodeRefusal(f.Body)
	case wire.KindHello, wire.KindAnswer:
		return nil, nil
	}
	e, err := wire.DecodeEvent(f.Kind, f.Body)
	if err != nil {
		return nil, filch.Errorf(filch.Internal, "%s", err.Error())
	}
	switch e := e.(type) {
	case launcher.Accepted:
		again := r.Job != 0
		r.Job = e.Job
		if again {
			return nil, nil
		}
	case launcher.Ended, launcher.Refused:
		r.ended = true
	}
	return e, nil
}

// fresh returns the part of o not seen before, or nil.
func (r *Run) fresh(o wire.Output) any {
	have := r.seen[o.Index]
	end := o.Offset + uint64(len(o.Data))
	if end <= have && len(o.Data) > 0 {
		return nil
	}
	if o.Offset < have {
		o.Data = o.Data[have-o.Offset:]
		o.Offset = have
	}
	r.seen[o.Index] = end
	return o
}

func (r *Run) current() *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.client
}

var errEnded = errors.New("the run has ended")

// redial looks for the restarted launcher and continues the run.
func (r *Run) redial() error {
	lost := filch.Errorf(filch.Unavailable, "the launcher closed the connection")
	old := r.current()
	old.Close()
	if r.ended {
		return errEnded
	}
	if r.Job == 0 {
		return lost.WithHint("the job may have been accepted; `filch ps` shows whether it was")
	}
	for end := time.Now().Add(RedialWait); time.Now().Before(end); time.Sleep(redialPause) {
		c, err := DialDir(old.Dir, r.build)
		if err != nil {
			continue
		}
		if r.attach(c) == nil {
			return nil
		}
		c.Close()
	}
	return filch.Errorf(filch.NodeLost, "the launcher of %s ended and was not back within %v: job %d is killed", old.Dir.Node, RedialWait, r.Job).
		WithHint("its log is %s", old.Dir.Log())
}

// attach continues the run on a new connection.
func (r *Run) attach(c *Client) error {
	re := wire.Reattach{Job: r.Job}
	for i, n := range r.seen {
		re.Seen = append(re.Seen, wire.Mark{Index: i, Offset: n})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errEnded
	}
	if err := c.conn.Write(wire.KindReattach, 0, re); err != nil {
		return err
	}
	for _, s := range r.kept {
		if err := c.conn.WriteRaw(wire.KindStdin, 0, wire.Stdin{Offset: s.at, EOF: s.eof}.Head(nil), s.data); err != nil {
			return err
		}
	}
	r.client = c
	return c.conn.Flush()
}

// Stdin sends a piece of standard input; the caller must not exceed the amount that
// Next has granted.
func (r *Run) Stdin(b []byte, eof bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := sentIn{at: r.stdin, data: append([]byte(nil), b...), eof: eof}
	r.stdin += uint64(len(b))
	r.kept = append(r.kept, s)
	for len(r.kept) > 1 && r.stdin-r.kept[1].at >= keptMax {
		r.kept = r.kept[1:]
	}
	if err := r.client.conn.WriteRaw(wire.KindStdin, 0, wire.Stdin{Offset: s.at, EOF: eof}.Head(nil), b); err != nil {
		return err
	}
	return r.client.conn.Flush()
}

// Signal forwards a signal to every rank.
func (r *Run) Signal(sig int32) error { return r.say(wire.KindSignal, wire.Signal{Sig: sig}) }

// Cancel stops the job, with sig first.
func (r *Run) Cancel(sig int32) error { return r.say(wire.KindCancel, wire.Signal{Sig: sig}) }

// Resize sends a new size to rank 0's terminal.
func (r *Run) Resize(w launcher.Window) error { return r.say(wire.KindResize, w) }

// Another is a further connection to the same launcher.
func (r *Run) Another() (*Client, error) { return r.current().Another() }

func (r *Run) say(k wire.Kind, v any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.client.conn.Send(k, 0, v)
}

// Close ends the connection. An attached job that has not ended is stopped.
func (r *Run) Close() {
	r.mu.Lock()
	r.closed = true
	c := r.client
	r.mu.Unlock()
	c.Close()
}
