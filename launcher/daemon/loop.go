package daemon

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/dataplane"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of the loop.
const (
	maxBurst  = 256 // inputs taken before the loop acts on the Outbox
	maxToSelf = 64  // rounds per turn of messages of the node to itself
)

// beat is how often keepers with a job learn that their launcher is alive, and how
// often a route retries failed sends.
const beat = time.Second

// loop owns the Node.
type loop struct {
	d      *Daemon
	node   *node.Node
	out    launcher.Outbox
	toSelf []launcher.Message
	dirty  []*wire.Conn  // links to be flushed at the end of the turn
	later  []*wire.Conn  // like dirty, for links without a waiting reader
	ended  []filch.JobID // in this turn
	beats  bool          // the next beat is set
	beatAt time.Duration
	refill time.Duration // when the loop starts keepers next; or Never

	down string // the scope of the order to go down for good; "": none
	dead bool   // declared dead, until all keepers and tasks have ended
}

func newLoop(d *Daemon) *loop {
	l := &loop{d: d}
	l.refill = filch.Never
	return l
}

// run is the loop.
func (l *loop) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	l.begin()
	for {
		l.arm(timer)
		select {
		case in := <-l.d.in.Waiting():
			if l.d.in.Context().Err() == nil { // else a client whose link this end closes counts as gone
				l.take(in)
			}
		case <-l.d.members.signal:
			l.d.members.deliver(l.turn())
		case <-timer.C:
			l.tick()
		case <-l.d.in.Context().Done():
			l.finish()
			return
		}
		l.act()
	}
}

// begin restores the state of the launcher before this one.
func (l *loop) begin() {
	records, err := l.d.records.load()
	if err != nil {
		l.d.in.Fault("cannot read the records of an earlier launcher", err)
	}
	l.d.store.begin(l.turn())
	l.node.Restore(l.d.in.Now(), records, &l.out)
	l.d.routes.Restore(records)
	l.d.copies.Restore(records)
	l.d.members.begin()
	l.d.members.deliver(l.turn())
	l.d.store.foundIfFirst(l.turn())
	l.d.keepers.Adopt()
	l.d.keepers.OnAdopted(l.turn(), nil)
	l.act()
}

// finish releases the keepers and drops inputs still posted.
func (l *loop) finish() {
	l.d.keepers.Release()
	l.d.runners.Release()
	l.node.FlushMirror(&l.out)
	l.d.mirror.end(l.out.Mirror)
	l.d.past.end()
	if err := l.d.records.close(); err != nil {
		l.d.in.Fault("cannot keep the records", err)
	}
	for {
		select {
		case <-l.d.in.Waiting():
		default:
			return
		}
	}
}

func (l *loop) turn() *inputs.Turn { return &inputs.Turn{Node: l.node, Now: l.d.in.Now(), Out: &l.out} }

// take runs all queued inputs, at most maxBurst.
func (l *loop) take(in inputs.Input) {
	t := l.turn()
	in(t)
	for range maxBurst - 1 {
		select {
		case in = <-l.d.in.Waiting():
			in(t)
		default:
			return
		}
	}
}

// arm sets the timer for the Node's deadline or the next beat.
func (l *loop) arm(timer *time.Timer) {
	due := l.node.Deadline()
	if !l.beats && (l.d.keepers.Busy() || l.d.routes.Count() > 0) {
		l.beats, l.beatAt = true, l.d.in.Now()+beat
	}
	if l.beats {
		due = min(due, l.beatAt)
	}
	due = min(due, l.refill, l.d.members.noteAt)
	if l.d.runners.HasWork() {
		due = min(due, l.d.in.Now())
	}
	if l.dead {
		due = min(due, l.d.in.Now()+inputs.IdlePause)
	}
	if due == filch.Never {
		timer.Stop()
		return
	}
	timer.Reset(max(0, due-l.d.in.Now()))
}

func (l *loop) tick() {
	now := l.d.in.Now()
	if l.beats && now >= l.beatAt {
		l.beats = false
		l.d.keepers.Beat(l.turn())
		l.d.routes.Retry()
	}
	l.d.rejoin()
	l.d.members.tick(now)
	if now >= l.refill {
		l.refill = filch.Never
		l.d.keepers.Refill()
	}
	if now >= l.node.Deadline() {
		l.node.Tick(now, &l.out)
	}
}

// RefillAt starts keepers at the given time or earlier.
func (l *loop) RefillAt(at time.Duration) { l.refill = min(l.refill, at) }

// act carries out the orders of the Node, in the order of the Outbox's fields. A
// message of the node to itself goes back to the Node at once.
func (l *loop) act() {
	l.d.in.Watch.Add(watch.Turns, 1)
	l.d.runners.DeliverEnds(l.turn())
	l.d.runners.DeliverGangs(l.turn())
	l.d.store.checkQuota(l.turn()) // before any append: checkQuota may log
	for range maxToSelf {
		l.once()
		if len(l.toSelf) == 0 {
			break
		}
		now := l.d.in.Now()
		for _, m := range l.toSelf {
			l.node.Message(now, l.d.in.Self, m, &l.out)
		}
		clear(l.toSelf)
		l.toSelf = l.toSelf[:0]
	}
	l.d.runners.Flush()
	l.flush(&l.dirty)
	l.flush(&l.later)
	l.d.records.flush()
	if len(l.ended) > 0 {
		l.d.queries.OnEnded(l.ended)
		l.ended = l.ended[:0]
	}
}

func (l *loop) once() {
	d, o := l.d, &l.out
	for i := range o.Notes {
		d.in.Watch.Note(o.Notes[i])
	}
	d.in.Watch.Events(o.Events)
	d.past.add(o.Past)
	d.store.keep(o.Logs, o.Hurry)
	d.mirror.add(o.Mirror)
	for i := range o.Records {
		l.record(&o.Records[i])
	}
	for i := range o.Starts {
		d.routes.Learn(&o.Starts[i].Launch, o.Starts[i].Index)
		d.copies.Start(&o.Starts[i])
	}
	for i := range o.Tasks {
		d.mirror.launch(&o.Tasks[i])
	}
	for i := range o.GangEnds {
		e := &o.GangEnds[i]
		e.Silent = d.routes.Lacking(e.Run, e.Silent)
		d.routes.End(e.Run)
		d.runners.EndGang(*e)
	}
	for _, s := range o.TaskStops {
		d.mirror.stop(s)
	}
	for _, k := range o.TaskLosers {
		d.files.Unpublish(k.Job, k.Name)
	}
	for _, j := range o.TaskForgets {
		d.runners.Forget(j)
	}
	for i := range o.Deeds {
		d.copies.Deed(&o.Deeds[i])
	}
	for i := range o.Sends {
		l.send(&o.Sends[i])
	}
	for i := range o.Stores {
		d.store.send(&o.Stores[i])
	}
	for i := range o.Replies {
		l.reply(&o.Replies[i])
	}
	for _, name := range o.Seeks {
		d.in.Go(func() { d.queries.Seek(name) })
	}
	if o.Look {
		d.in.Go(d.queries.Look)
	}
	if why := o.Drain; why != nil {
		d.in.Go(func() { d.in.Post(func(t *inputs.Turn) { d.drainSelf(t, why) }) })
	}
	l.clearOut()
}

// flush writes to links; the reader of a broken link handles the fault.
func (l *loop) flush(links *[]*wire.Conn) {
	for i, c := range *links {
		_ = c.Flush()
		(*links)[i] = nil
	}
	*links = (*links)[:0]
}

// clearOut empties the Outbox and drops the pointers in the fields.
func (l *loop) clearOut() {
	o := &l.out
	clear(o.Notes)
	clear(o.Events)
	clear(o.Past)
	clear(o.Logs)
	clear(o.Stores)
	clear(o.Records)
	clear(o.Starts)
	clear(o.Deeds)
	clear(o.Sends)
	clear(o.Replies)
	clear(o.Tasks)
	o.Reset()
}

// Touch marks a link for the flush at the end of the turn.
func (l *loop) Touch(c *wire.Conn) {
	if slices.Contains(l.dirty, c) {
		return
	}
	l.dirty = append(l.dirty, c)
}

// TouchLast marks a link for the flush after the links with a waiting reader.
func (l *loop) TouchLast(c *wire.Conn) { l.later = append(l.later, c) }

func (l *loop) record(r *launcher.Record) {
	if err := l.d.records.put(r); err != nil {
		l.d.in.Fault("cannot keep a record", err, "key", r.Key)
	}
	switch {
	case r.Job != nil && r.Job.Ended != nil:
		l.onJobEnded(r.Job.Job)
	case r.Job == nil && r.Participant == nil:
		if j, ok := jobOfKey(r.Key); ok {
			l.onJobEnded(j)
		}
	}
}

// onJobEnded handles the end of a job of this origin.
func (l *loop) onJobEnded(j filch.JobID) {
	l.ended = append(l.ended, j)
	l.d.routes.End(j)
	l.d.copies.OnEnded(j)
}

// jobOfKey returns the job whose own record has the given key.
func jobOfKey(key string) (filch.JobID, bool) {
	digits, ok := strings.CutPrefix(key, "job/")
	n, err := strconv.ParseInt(digits, 10, 32)
	return filch.JobID(n), ok && err == nil
}

// send encodes and queues a message. A message that cannot be sent is lost: Nodes
// repeat every message that matters.
func (l *loop) send(s *launcher.Send) {
	d := l.d
	if m, ok := s.Message.(*launcher.Dispatch); ok && m.Launch.Origin == d.in.Self {
		d.routes.Learn(&m.Launch, dataplane.NotHere)
	}
	if s.To == d.in.Self {
		l.toSelf = append(l.toSelf, s.Message)
		return
	}
	k, body, err := wire.EncodeMessage(s.Message)
	var payload []byte
	if err == nil {
		payload, err = wire.Payload(k, 0, body)
	}
	if err != nil {
		d.in.Fault("cannot encode a message", err, "peer", string(s.To))
		return
	}
	if err := d.net.Send(s.To, overlay.Control, payload); err != nil {
		d.in.Watch.Add(watch.MessagesLost, 1)
		if !errors.Is(err, overlay.ErrUnreachable) {
			d.in.Watch.Log().Warn("a message was not sent", "peer", string(s.To), "kind", k.String(), "err", err.Error())
		}
		return
	}
	d.in.Watch.Sent(s.To, s.Message)
}

// reply sends an event to a client. The first event with a job id binds the job to the
// client.
func (l *loop) reply(r *launcher.Reply) {
	c := l.d.clients.find(r.Client)
	switch e := r.Event.(type) {
	case launcher.Accepted:
		if c != nil {
			c.Job.Store(int32(e.Job))
			l.d.routes.Bind(e.Job, &c.Client)
			l.d.copies.OnAccepted(e.Job, &c.offer)
		}
		l.d.queries.OnSubmitted(e.Job)
	case launcher.TaskNews:
		if e.What == launcher.TasksAccepted {
			l.d.queries.OnSubmitted(e.Job)
		}
	case launcher.Started:
		l.d.copies.OnStarted(e.Job)
	case launcher.Ended:
		l.onJobEnded(e.Job)
	}
	if c == nil {
		return
	}
	k, body, err := wire.EncodeEvent(r.Event)
	if err == nil {
		err = c.Conn.WriteRaw(k, 0, body)
	}
	if err != nil {
		l.d.in.Watch.Log().Debug("a client was not told", "err", err.Error())
		return
	}
	switch r.Event.(type) {
	case launcher.Ended, launcher.Refused:
		c.finished.Store(true)
	}
	l.Touch(c.Conn)
}
