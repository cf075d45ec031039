package daemon

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/daemon/query"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/submit"
)

// clientKinds is the table of the kinds that a client may send after the hello, each
// with its handler. Package wire has the limits.
var clientKinds = map[wire.Kind]func(cs *clients, c *client, f wire.Frame) error{
	wire.KindSubmit:     (*clients).onSubmit,
	wire.KindReattach:   (*clients).onReattach,
	wire.KindStdin:      (*clients).onStdin,
	wire.KindResize:     (*clients).onResize,
	wire.KindSignal:     (*clients).onSignal,
	wire.KindCancel:     (*clients).onSignal,
	wire.KindTaskSubmit: (*clients).onTaskSubmit,
	wire.KindTaskGrow:   (*clients).onTaskGrow,
	wire.KindTaskFollow: (*clients).onTaskFollow,
	wire.KindQuery:      (*clients).onQuery,
	wire.KindOps:        (*clients).onOps,
}

// dispatch hands a frame of a client to its handler.
func (cs *clients) dispatch(c *client, f wire.Frame) error {
	handle, handled := clientKinds[f.Kind]
	if !f.Kind.On(wire.FromClient) || !handled {
		return filch.Errorf(filch.Invalid, "a client does not send %s", f.Kind)
	}
	return handle(cs, c, f)
}

func (cs *clients) onSubmit(c *client, f wire.Frame) error {
	var r launcher.Request
	if err := wire.Unmarshal(f.Body, &r); err != nil {
		return err
	}
	if err := cs.d.copies.OnOffer(&c.offer, &r); err != nil {
		return err
	}
	ns := time.Now().UnixNano()
	cs.d.in.Watch.Add(watch.Submissions, 1)
	cs.d.in.Post(func(t *inputs.Turn) { t.Node.Submit(t.Now, c.id, r, ns, t.Out) })
	return nil
}

func (cs *clients) onReattach(c *client, f wire.Frame) error {
	var r wire.Reattach
	if err := wire.Unmarshal(f.Body, &r); err != nil {
		return err
	}
	cs.d.in.Post(func(t *inputs.Turn) { cs.reattach(t, c, r) })
	return nil
}

func (cs *clients) onStdin(c *client, f wire.Frame) error {
	if _, err := wire.DecodeStdin(f.Body); err != nil {
		return err
	}
	cs.d.routes.Stdin(filch.JobID(c.Job.Load()), f.Body)
	return nil
}

func (cs *clients) onResize(c *client, f wire.Frame) error {
	cs.d.routes.Resize(filch.JobID(c.Job.Load()), f.Body)
	return nil
}

func (cs *clients) onSignal(c *client, f wire.Frame) error {
	var s wire.Signal
	if err := wire.Unmarshal(f.Body, &s); err != nil {
		return err
	}
	cs.d.in.Post(func(t *inputs.Turn) { cs.signal(t, c, f.Kind, s) })
	return nil
}

func (cs *clients) onTaskSubmit(c *client, f wire.Frame) error {
	var s submit.Job
	if err := wire.Unmarshal(f.Body, &s); err != nil {
		return err
	}
	ns := time.Now().UnixNano()
	cs.d.in.Watch.Add(watch.Submissions, 1)
	cs.d.in.Post(func(t *inputs.Turn) { t.Node.SubmitTasks(t.Now, c.id, s, ns, t.Out) })
	return nil
}

func (cs *clients) onTaskGrow(c *client, f wire.Frame) error {
	var g wire.TaskGrow
	if err := wire.Unmarshal(f.Body, &g); err != nil {
		return err
	}
	cs.d.in.Post(func(t *inputs.Turn) {
		if len(g.Lines) > 0 || g.Count > 0 {
			t.Node.GrowTasks(t.Now, c.id, g.Job, g.Token, g.Count, g.Lines, t.Out)
		}
		if g.Close {
			t.Node.CloseTasks(t.Now, g.Job, t.Out)
		}
	})
	return nil
}

func (cs *clients) onTaskFollow(c *client, f wire.Frame) error {
	var w wire.TaskFollow
	if err := wire.Unmarshal(f.Body, &w); err != nil {
		return err
	}
	cs.d.in.Post(func(t *inputs.Turn) { t.Node.FollowTasks(t.Now, c.id, w.Job, t.Out) })
	return nil
}

func (cs *clients) onQuery(c *client, f wire.Frame) error {
	q, err := wire.DecodeQuery(f.Body)
	if err != nil {
		return err
	}
	cs.query(c, f.Req, q)
	return nil
}

// query answers a client on a goroutine of its own.
func (cs *clients) query(c *client, req uint32, q wire.Query) {
	end, err := cs.d.questions.Begin(q)
	if err != nil {
		c.answer(req, nil, err)
		return
	}
	cs.d.in.Go(func() {
		v, err := cs.d.queries.Answer(q, true)
		end()
		c.answer(req, v, err)
		_ = c.Conn.Drain(closeDrain)
	})
}

// answer ends a query of the client.
func (c *client) answer(req uint32, v any, err error) {
	if head, data, tail, err := peers.AnswerOf(v, err).Parts(); err == nil && c.Conn.WriteRaw(wire.KindAnswer, req, head, data, tail) == nil {
		_ = c.Conn.Flush()
	}
}

// onOps executes operations of a client on the store.
func (cs *clients) onOps(c *client, f wire.Frame) error {
	o, err := wire.DecodeOps(f.Body)
	if err != nil {
		return err
	}
	cs.d.in.Post(func(t *inputs.Turn) {
		t.Node.StoreDo(t.Now, o.Ops, min(max(o.Wait, 0), query.Longest), func(rs []dht.Result) {
			if c.Conn.Write(wire.KindResults, f.Req, wire.Results{Results: rs}) == nil {
				cs.d.loop.Touch(c.Conn)
			}
		}, t.Out)
	})
	return nil
}

// signal forwards a signal or cancels a job; job 0 means the job of the client.
func (cs *clients) signal(t *inputs.Turn, c *client, k wire.Kind, s wire.Signal) {
	if s.Job == 0 {
		s.Job = filch.JobID(c.Job.Load())
	}
	var err *filch.Error
	switch {
	case k == wire.KindSignal:
		err = t.Node.Signal(t.Now, s.Job, s.Sig, t.Out)
	case s.Sig == sigInt:
		err = t.Node.Cancel(t.Now, s.Job, s.Sig, "interrupt", t.Out)
	default:
		err = t.Node.Cancel(t.Now, s.Job, s.Sig, "its client", t.Out)
	}
	if err != nil && c.Conn.Write(wire.KindWarn, 0, wire.Warn{Text: err.Text}) == nil {
		cs.d.loop.Touch(c.Conn)
	}
}

// reattach connects a client to its run after this launcher was restarted.
func (cs *clients) reattach(t *inputs.Turn, c *client, r wire.Reattach) {
	if err := t.Node.Reattach(t.Now, c.id, r.Job, t.Out); err != nil {
		t.Out.Replies = append(t.Out.Replies, launcher.Reply{Client: c.id, Event: launcher.Refused{Err: *err, Code: filch.ExitOurs}})
		return // the output goes to the client that has the job, if any
	}
	c.Job.Store(int32(r.Job))
	cs.d.routes.Reattach(r.Job, &c.Client, r.Seen)
}
