package logs

import (
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// silent is a launcher of three nodes with a job whose tasks run and print nothing: the
// launcher holds queries for as long as they ask, and counts the queries. Node n3 is slow.
type silent struct {
	t       *testing.T
	replies chan client.Reply
	over    chan struct{}
	ends    time.Time // of the job; the zero time is never
	deaf    time.Time // until then n2 answers no question for output after the end
	short   bool      // or answers, and its runners do not

	mu    sync.Mutex
	sent  map[string]int // by verb, and of output by node
	req   uint32
	wakes int // of the reader, for an answer
}

// slowAnswer is how long n3 takes for an answer.
const slowAnswer = 900 * time.Millisecond

func newSilent(t *testing.T) *silent {
	return &silent{t: t, replies: make(chan client.Reply, 64), over: make(chan struct{}), sent: map[string]int{}}
}

// Send implements asker.
func (s *silent) Send(verb string, args ...string) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.req++
	name, wait := verb, ""
	var body []byte
	var err error
	switch verb {
	case wire.VerbNodes:
		list := make([]wire.NodeInfo, 3)
		for i := range list {
			list[i].Node, list[i].State = filch.NodeName("n"+strconv.Itoa(i+1)), filch.Up.String()
		}
		body, err = json.Marshal(list)
	case wire.VerbWait:
		info := launcher.JobInfo{ID: 7, Kind: "bag", State: filch.Running.String()}
		if wait = args[1]; !s.ends.IsZero() {
			wait, info.Code = time.Until(s.ends).String(), new(int32)
		}
		body, err = json.Marshal(info)
	case wire.VerbOutput:
		name += " " + args[0]
		wait = args[6]
		body, err = wire.Marshal(&wire.OutputChunk{End: true})
	default:
		s.t.Errorf("the reader asks %s %q", verb, args)
	}
	s.sent[name]++
	held := time.Duration(0)
	if err == nil && wait != "" {
		held, err = time.ParseDuration(wait)
	}
	if name == wire.VerbOutput+" n3" {
		held = max(held, slowAnswer)
	}
	reply := client.Reply{Req: s.req, Body: body}
	if now := time.Now(); name == wire.VerbOutput+" n2" && !s.ends.IsZero() && !now.Before(s.ends) {
		switch {
		case now.Before(s.deaf) && s.short:
			reply.Body, err = wire.Marshal(&wire.OutputChunk{End: true, Short: true})
		case now.Before(s.deaf):
			reply.Err = filch.Errorf(filch.Timeout, "node n2 did not answer output within 4s")
		default:
			reply.Body, err = wire.Marshal(&wire.OutputChunk{End: true, Pieces: []wire.OutputPiece{{Index: 3, Stream: 1, Data: []byte("late\n")}}})
		}
	}
	time.AfterFunc(held, func() {
		select {
		case s.replies <- reply:
		case <-s.over:
		}
	})
	return s.req, err
}

// Next implements asker.
func (s *silent) Next() (client.Reply, error) {
	select {
	case r := <-s.replies:
		s.mu.Lock()
		s.wakes++
		s.mu.Unlock()
		return r, nil
	case <-s.over:
		return client.Reply{}, io.EOF
	}
}

// Close implements asker.
func (s *silent) Close() {}

// mute is a sink that counts its calls, and gets no output.
type mute struct {
	t    *testing.T
	idle int
}

func (m *mute) Piece(*Target, *wire.OutputPiece) error {
	m.t.Error("output of a silent job")
	return nil
}
func (m *mute) CaughtUp() error      { return nil }
func (m *mute) Idle(time.Time) error { m.idle++; return nil }

// A follower of tasks that print nothing asks each node once in 25 seconds, and its own
// launcher for the nodes every two; the follower wakes for these answers and once a second. At
// the beginning, the follower does not ask the others again while a slow node makes up its mind.
// The same holds for submit --tag, which prints each task at its end.
func TestFollowerOfASilentJobHardlyAsks(t *testing.T) {
	for name, show := range map[string][]string{"logs": {Lines}, "tag": {Ended}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const span = 1000 * time.Second
				s, sink := newSilent(t), &mute{t: t}
				r := &Reader{
					Targets: []Target{{Job: 7, Last: All, Info: launcher.JobInfo{ID: 7, Kind: "bag"}}},
					Follow:  true, Show: show, Sink: sink,
				}
				time.AfterFunc(span, func() { close(s.over) })
				if err := r.run(s); err != io.EOF {
					t.Errorf("the follower ended with %v", err)
				}
				for _, c := range []struct {
					what  string
					every time.Duration
				}{
					{wire.VerbOutput + " n1", heldFor},
					{wire.VerbOutput + " n2", heldFor},
					{wire.VerbOutput + " n3", heldFor},
					{wire.VerbWait, heldFor},
					{wire.VerbNodes, nodesEvery},
				} {
					// One more query is the first, which does not wait.
					if got, most := s.sent[c.what], int(span/c.every)+2; got > most || got < most/2 {
						t.Errorf("%d queries %q in %v, want %d at most", got, c.what, span, most)
					}
				}
				all := 0
				for _, n := range s.sent {
					all += n
				}
				if all > int(span/time.Second) || s.wakes > all || sink.idle > int(span/askAgain)+1 {
					t.Errorf("%d queries, %d answers and %d looks at the terminal in %v", all, s.wakes, sink.idle, span)
				}
			})
		})
	}
}

// late is a sink that counts pieces.
type late struct{ pieces int }

func (l *late) Piece(*Target, *wire.OutputPiece) error { l.pieces++; return nil }
func (l *late) CaughtUp() error                        { return nil }
func (l *late) Idle(time.Time) error                   { return nil }

// A node that does not answer at the end of a job is asked for its output until it answers, and
// given up after some time, with a word.
func TestOutputOfANodeThatIsBackSoon(t *testing.T) {
	for name, c := range map[string]struct {
		deaf   time.Duration // after the end
		short  bool
		pieces int
	}{"soon": {doneWait / 2, false, 1}, "never": {time.Hour, false, 0}, "runners soon": {doneWait / 2, true, 1}, "runners never": {time.Hour, true, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, sink := newSilent(t), &late{}
				s.ends = time.Now().Add(5 * time.Second)
				s.deaf, s.short = s.ends.Add(c.deaf), c.short
				r := &Reader{Targets: []Target{{Job: 7, Last: All, Info: launcher.JobInfo{ID: 7, Kind: "bag"}}}, Follow: true, Show: []string{Ended}, Sink: sink}
				if err := r.run(s); err != nil {
					t.Errorf("the reader ended with %v", err)
				}
				if took := time.Since(s.ends); sink.pieces != c.pieces || took > doneWait+2*askAgain+slowAnswer {
					t.Errorf("%d pieces of output in %v after the end, want %d", sink.pieces, took, c.pieces)
				}
				if got := r.jobs[0].parts["n2"].unread; got != (c.pieces == 0) {
					t.Errorf("the output of n2 is missing: %t", got)
				}
				close(s.over)
			})
		})
	}
}
