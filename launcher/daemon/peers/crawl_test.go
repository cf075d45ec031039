package peers

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/wire"
)

// partial is a link of a node whose list of members is not whole. A frame to a node that
// is not there waits for a lookup, and is lost.
type partial struct{ link }

func (p partial) Whole() bool { return false }

func (p partial) Send(to filch.NodeName, c overlay.Class, payload []byte) error {
	err := p.link.Send(to, c, payload)
	if errors.Is(err, overlay.ErrUnreachable) {
		return nil
	}
	return err
}

// A member that names thousands of nodes that are not there neither holds up a question
// to all nodes for long, nor makes the nodes appear.
func TestCrawlPastInventedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instance(t, "n1", "n2")
		a := all["n1"]
		a.Connect(partial{link{"n1", all}})
		var names []filch.NodeName
		for i := range 5000 {
			names = append(names, filch.NodeName(fmt.Sprintf("ghost%d", i)))
		}
		all["n2"].SetAnswer(func(q wire.Query) (any, error) {
			if q.Verb == wire.VerbKnown {
				return names, nil
			}
			return "here", nil
		})
		began := time.Now()
		var got []filch.NodeName
		AskAll(a, wire.Query{Verb: "ps"}, func(m Member, _ string, _ error) { got = append(got, m.Name) })
		if len(got) != 1 || got[0] != "n2" {
			t.Errorf("%d nodes were asked, want n2 alone", len(got))
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the question to all nodes took %v", took)
		}
	})
}
