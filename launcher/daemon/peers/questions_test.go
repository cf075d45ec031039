package peers

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// link carries the frames of a node to the questions of other nodes.
type link struct {
	self filch.NodeName
	to   map[filch.NodeName]*Questions
}

func (l link) Send(to filch.NodeName, c overlay.Class, payload []byte) error {
	q := l.to[to]
	if q == nil || c != overlay.Control {
		return overlay.ErrUnreachable
	}
	f, err := wire.ParsePayload(bytes.Clone(payload))
	if err != nil {
		return err
	}
	if f.Kind == wire.KindAsk {
		return q.OnAsk(l.self, f)
	}
	return q.OnReply(l.self, f)
}

func (l link) Peers() []overlay.Peer { return nil }

func (l link) Whole() bool { return true }

// instance makes the questions of nodes that know each other.
func instance(t *testing.T, names ...filch.NodeName) map[filch.NodeName]*Questions {
	all := map[filch.NodeName]*Questions{}
	for _, self := range names {
		d := NewDirectory(self)
		for _, n := range names {
			d.Set(Member{Peer: node.Peer{Name: n}})
		}
		q := NewQuestions(inputs.New(self, watch.Discard()), d)
		q.Connect(link{self, all})
		q.SetAnswer(func(q wire.Query) (any, error) {
			if q.Verb == "fail" {
				return nil, filch.Errorf(filch.NotFound, "%s has none", self)
			}
			return string(self) + " " + q.Verb, nil
		})
		all[self] = q
		t.Cleanup(func() { q.in.Stop(); q.in.Wait() })
	}
	return all
}

func TestQuestionsAreAnswered(t *testing.T) {
	all := instance(t, "n1", "n2", "n10")
	var got string
	if err := all["n1"].Ask("n2", time.Minute, wire.Query{Verb: "ps"}, &got); err != nil || got != "n2 ps" {
		t.Errorf("got %q, %v", got, err)
	}
	var e *filch.Error
	if err := all["n1"].Ask("n2", time.Minute, wire.Query{Verb: "fail"}, &got); !errors.As(err, &e) || e.Kind != filch.NotFound || e.Text != "n2 has none" {
		t.Errorf("got %v, want the error of n2", err)
	}
	if err := all["n1"].Ask("n3", time.Minute, wire.Query{Verb: "ps"}, &got); !errors.As(err, &e) || e.Kind != filch.Unavailable {
		t.Errorf("got %v of a node that is not there", err)
	}
	var each []string
	AskAll(all["n1"], wire.Query{Verb: "ps"}, func(m Member, v string, err error) {
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		each = append(each, v)
	})
	if len(each) != 2 || each[0] != "n2 ps" || each[1] != "n10 ps" {
		t.Errorf("got %q, want the answers of n2 and n10", each)
	}
	if n := len(all["n1"].open); n != 0 {
		t.Errorf("%d questions are open", n)
	}
}

// A node that answers as many queries as allowed refuses the next query, and an answer
// without a question is dropped.
func TestQuestionsAreBounded(t *testing.T) {
	all := instance(t, "n1", "n2")
	var end func()
	for range MaxQueries {
		var err error
		if end, err = all["n2"].Begin(wire.Query{Verb: "ps"}); err != nil {
			t.Fatalf("a place is missing: %v", err)
		}
	}
	var e *filch.Error
	if err := all["n1"].Ask("n2", time.Minute, wire.Query{Verb: "ps"}, new(string)); !errors.As(err, &e) || e.Kind != filch.Busy {
		t.Errorf("got %v, want busy", err)
	}
	end()
	if err := all["n1"].Ask("n2", time.Minute, wire.Query{Verb: "ps"}, new(string)); err != nil {
		t.Error(err)
	}
	body, err := wire.Marshal(AnswerOf("late", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := all["n1"].OnReply("n2", wire.Frame{Kind: wire.KindReply, Req: 5, Body: body}); err != nil {
		t.Error(err)
	}
	if a := AnswerOf(make([]byte, wire.MaxAnswer), nil); a.Err == nil {
		t.Error("an answer over the limit was encoded")
	}
}
