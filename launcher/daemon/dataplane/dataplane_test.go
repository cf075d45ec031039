package dataplane

import (
	"bytes"
	"context"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testInstance = "5f0c2a52-4b7e-4b0e-9d0e-1c2d3e4f5a6b"

// nowhere is a network that reaches no node.
type nowhere struct{}

func (nowhere) Send(filch.NodeName, overlay.Class, []byte) error { return overlay.ErrUnreachable }

func (nowhere) SendWait(context.Context, filch.NodeName, overlay.Class, []byte) error {
	return overlay.ErrUnreachable
}

func (nowhere) Protect(filch.NodeName, string) {}

func (nowhere) Unprotect(filch.NodeName, string) {}

// A member that names another's index, or a node that the job has not, changes
// nothing of the job's streams.
func TestRoutesBelieveNobody(t *testing.T) {
	rs := New(inputs.New("n1", watch.Discard()), testInstance, t.TempDir())
	rs.Connect(nowhere{})
	l := &launcher.Launch{Ident: filch.Ident{Instance: testInstance, Job: 9, Attempt: 1}, Origin: "n1", Nodes: []launcher.NodeRanks{{Node: "n1"}, {Node: "n2"}}}
	rs.Learn(l, NotHere)
	rt := rs.find(9)
	body := wire.Output{Index: 0, Stream: 1, Data: []byte("x")}.Head(nil)
	if err := rt.onNodeFrame("n2", wire.Relay{Attempt: 1, Kind: wire.KindOutput, Body: append(body, 'x')}); err == nil {
		t.Error("n2 spoke for n1")
	}
	body = wire.Output{Index: 7, Stream: 1}.Head(nil)
	if err := rt.onNodeFrame("n2", wire.Relay{Attempt: 1, Kind: wire.KindOutput, Body: body}); err == nil {
		t.Error("a node beyond the job spoke")
	}
	if err := rt.onStdinWant(wire.Place{Index: 7, Offset: 1}, true); err == nil {
		t.Error("a node beyond the job wants stdin")
	}
	rt.credit(7, 1, true)
	if err := rs.OnRelay("n3", wire.Frame{Kind: wire.KindRelay, Req: 9, Body: wire.Relay{Attempt: 8, Kind: wire.KindOutput}.Head(nil)}); err != nil {
		t.Errorf("another attempt: %v", err)
	}
	rs.drop(9, rt)
}

// answers is a network that keeps what is sent.
type answers struct {
	nowhere
	kinds []wire.Kind
}

func (a *answers) Send(_ filch.NodeName, _ overlay.Class, payload []byte) error {
	f, err := wire.ParsePayload(payload)
	if err != nil {
		return err
	}
	in, err := wire.DecodeRelay(f.Body)
	a.kinds = append(a.kinds, in.Kind)
	return err
}

// TestRestartedOriginKeepsOutput shows that a launcher which has not read the records of
// the launcher before it does not tell a node that the node's output has arrived: the
// output would be lost.
func TestRestartedOriginKeepsOutput(t *testing.T) {
	net := &answers{}
	rs := New(inputs.New("n1", watch.Discard()), testInstance, t.TempDir())
	rs.Connect(net)
	end := wire.Frame{Kind: wire.KindRelay, Req: 9, Body: append(wire.Relay{Attempt: 1, Kind: wire.KindOutputEnd}.Head(nil), wire.Place{Index: 1, Offset: 5}.Encode()...)}
	if err := rs.OnRelay("n2", end); err != nil || len(net.kinds) > 0 {
		t.Errorf("before the records are read: %v, and the answers %v; want none", err, net.kinds)
	}
	rs.Restore(nil)
	if err := rs.OnRelay("n2", end); err != nil || len(net.kinds) != 1 || net.kinds[0] != wire.KindOutputSeen {
		t.Errorf("of a job that has ended: %v, and the answers %v; want OutputSeen", err, net.kinds)
	}
}

// link is a stream that keeps what is written.
type link struct{ sent bytes.Buffer }

func (l *link) Write(b []byte) (int, error) { return l.sent.Write(b) }
func (l *link) Read([]byte) (int, error)    { return 0, io.EOF }
func (l *link) Close() error                { return nil }

// kinds are the kinds of the frames written since the last call.
func (l *link) kinds(t *testing.T, c *wire.Conn) (list []wire.Kind) {
	t.Helper()
	if err := c.Drain(time.Minute); err != nil {
		t.Fatal(err)
	}
	read := wire.NewConn(struct {
		io.Reader
		io.WriteCloser
	}{&l.sent, l})
	for {
		f, err := read.Read()
		if err != nil {
			return list
		}
		list = append(list, f.Kind)
	}
}

// TestOutputWaitsForTheClient shows that the end of a keeper on a restarted origin waits
// for the client, which takes the output: the keeper must not leave with the output.
func TestOutputWaitsForTheClient(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(rs *Routes, c *Client, output func())
		want  []wire.Kind // to the client
	}{
		{"client-comes", func(rs *Routes, c *Client, output func()) {
			rs.Reattach(9, c, nil)
			output()
		}, []wire.Kind{wire.KindOutput}},
		{"client-comes-and-goes", func(rs *Routes, c *Client, _ func()) {
			c.Job.Store(9)
			rs.Reattach(9, c, nil)
			rs.Unbind(c)
		}, nil},
		{"no-client", func(rs *Routes, _ *Client, output func()) {
			output()
			for range maxHeld + 1 {
				rs.Retry()
			}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			rs := New(inputs.New("n1", watch.Discard()), testInstance, t.TempDir())
			rs.Connect(nowhere{})
			l := launcher.Launch{Ident: filch.Ident{Instance: testInstance, Job: 9, Attempt: 1}, Origin: "n1", Nodes: []launcher.NodeRanks{{Node: "n1"}}}
			var toKeeper, toClient link
			k, client := &Keeper{Conn: wire.NewConn(&toKeeper)}, &Client{}
			client.Attach(&toClient)
			rs.Learn(&l, 0)
			rs.Attach(k, &launcher.Start{Launch: l})
			output := func() {
				text := []byte("still here\n")
				for _, f := range []wire.Frame{
					{Kind: wire.KindOutput, Body: append(wire.Output{Stream: 1, Data: text}.Head(nil), text...)},
					{Kind: wire.KindOutputEnd, Body: wire.Place{Offset: uint64(len(text))}.Encode()},
				} {
					if err := k.OnFrame(f); err != nil {
						t.Fatal(err)
					}
				}
				k.Flush()
			}
			output()
			if kinds := toKeeper.kinds(t, k.Conn); len(kinds) > 0 {
				t.Errorf("without a client the keeper was sent %v", kinds)
			}
			done := 0
			gaveUp := false
			if !k.Hold(func(unsent bool) { done++; gaveUp = unsent }) {
				t.Fatal("the keeper was let go with the output")
			}
			rs.Retry()
			if done > 0 {
				t.Fatal("the keeper was let go before the client came")
			}
			c.after(rs, client, output)
			if want := c.name == "no-client"; done != 1 || gaveUp != want {
				t.Errorf("the keeper was let go %d times, want 1; with output unsent: %t, want %t", done, gaveUp, want)
			}
			if got := toClient.kinds(t, client.Conn); !slices.Equal(got, c.want) {
				t.Errorf("the client was sent %v, want %v", got, c.want)
			}
			if k.Hold(func(bool) {}) {
				t.Error("the end was held again")
			}
			rs.Detach(l.Ident, k)
			rs.End(9)
		})
	}
}

// wholeTaker takes all output of a gang.
type wholeTaker struct{ bytes.Buffer }

func (w *wholeTaker) Take(o wire.Output) { w.Write(o.Data) }

// TestLackingNamesNodesWithoutAllOutput shows that the owner of a gang knows which nodes went
// with output: those that did not say where their output ends, or sent less.
func TestLackingNamesNodesWithoutAllOutput(t *testing.T) {
	rs, taker := New(inputs.New("n1", watch.Discard()), testInstance, t.TempDir()), &wholeTaker{}
	rs.Connect(nowhere{})
	rs.SetGangs(func(launcher.TaskID) Taker { return taker })
	nodes := []filch.NodeName{"n2", "n3", "n4"}
	l := launcher.Launch{Ident: filch.Ident{Instance: testInstance, Job: 9, Attempt: 1}, Origin: "n1", Of: launcher.TaskID{Job: 3}}
	for _, n := range nodes {
		l.Nodes = append(l.Nodes, launcher.NodeRanks{Node: n})
	}
	rs.Learn(&l, NotHere)
	say := func(i int, k wire.Kind, body ...byte) {
		t.Helper()
		f := wire.Frame{Kind: wire.KindRelay, Req: 9, Body: append(wire.Relay{Attempt: 1, Kind: k}.Head(nil), body...)}
		if err := rs.OnRelay(nodes[i], f); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		say(i, wire.KindOutput, append(wire.Output{Index: int32(i), Stream: 1}.Head(nil), "hello"...)...)
	}
	say(0, wire.KindOutputEnd, wire.Place{Index: 0, Offset: 5}.Encode()...)
	say(1, wire.KindOutputEnd, wire.Place{Index: 1, Offset: 6}.Encode()...)
	if got, want := rs.Lacking(9, nodes), nodes[1:]; !slices.Equal(got, want) || taker.String() != "hellohello" {
		t.Errorf("%v lack output and %q came, want %v and the lines of two nodes", got, &taker.Buffer, want)
	}
	rs.End(9)
	if got := rs.Lacking(9, nodes[:1]); len(got) != 1 {
		t.Errorf("of a run that is over %v lack output, want all that are asked for: nothing is known", got)
	}
}

// The oldest log goes when there are too many, but not one that is written.
func TestLogOfARunningJobStays(t *testing.T) {
	ls := newLogs(t.TempDir())
	first, err := ls.open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	for j := filch.JobID(2); j <= maxLogs+2; j++ {
		s, err := ls.open(j)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.append(wire.Output{Stream: 1, Data: []byte("still here\n")}, 1, 0); err != nil {
		t.Fatal(err)
	}
	pieces, _, _, err := output.ReadLog(ls.path(1), 0, 0, math.MaxInt32, 1<<20)
	if !ls.has(1) || err != nil || len(pieces) != 1 {
		t.Errorf("the log of a job that runs is gone: %v, %v", pieces, err)
	}
	if ls.has(2) || !ls.has(4) {
		t.Errorf("the oldest log of a job that has ended is there: %v, a newer one: %v", ls.has(2), ls.has(4))
	}
}

// The log of an attempt is closed when another has begun, too.
func TestLogOfAnAttemptIsClosed(t *testing.T) {
	rs := New(inputs.New("n1", watch.Discard()), testInstance, t.TempDir())
	const job = 5
	for attempt := range filch.Attempt(3) {
		rs.Learn(&launcher.Launch{
			Ident:  filch.Ident{Instance: testInstance, Job: job, Attempt: attempt + 1},
			Origin: "n1", Detach: true, Nodes: []launcher.NodeRanks{{Node: "n1"}},
		}, 0)
	}
	rs.End(job)
	if n := rs.logs.busy[job]; n != 0 {
		t.Errorf("%d files of a job that has ended are open", n)
	}
}
