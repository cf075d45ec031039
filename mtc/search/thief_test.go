package search

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// idler is a node among others that can say which tasks it has.
type idler struct {
	now      time.Duration
	members  *policy.Members
	dice     filch.Rand
	leader   filch.NodeName // of the job with tasks here; "" without tasks
	workflow bool
	asked    []filch.NodeName
}

func (n *idler) Now() time.Duration             { return n.now }
func (n *idler) Self() record.Owner             { return record.Owner{Node: "n0", Incarnation: 1} }
func (n *idler) Members() *policy.Members       { return n.members }
func (n *idler) Dice() *filch.Rand              { return &n.dice }
func (n *idler) Wake(time.Duration)             {}
func (n *idler) Hungry() bool                   { return n.leader == "" }
func (n *idler) Works() bool                    { return n.leader != "" }
func (n *idler) Means() message.Means           { return message.Means{} }
func (n *idler) Victims() policy.Victims        { return policy.Random }
func (n *idler) Robber() filch.NodeName         { return "" }
func (n *idler) Leader() (filch.NodeName, bool) { return n.leader, n.workflow }
func (n *idler) PollMax() time.Duration         { return time.Second }
func (n *idler) Quiet() time.Duration           { return 0 }
func (n *idler) Vain()                          {}
func (n *idler) Send(to filch.NodeName, m message.Message) {
	if _, ask := m.(*message.LoadAsk); ask {
		n.asked = append(n.asked, to)
	}
}

// TestThievesAskTheLeader: the ready tasks of a workflow wait at the leader. A thief whose last job
// was a workflow asks the leader in each try, after any number of failures; after a bag, only by
// chance.
func TestThievesAskTheLeader(t *testing.T) {
	const nodes, tries = 64, 12
	for _, workflow := range []bool{true, false} {
		n := &idler{members: policy.NewMembers(), dice: 1, leader: "n5", workflow: workflow}
		for i := range nodes {
			n.members.Set(filch.Member{Name: filch.NodeName(fmt.Sprint("n", i)), Incarnation: 1})
		}
		s := Thief{Node: n}
		s.Seek() // takes in the job
		n.leader = ""
		told := 0
		for range tries {
			n.asked = nil
			if at := s.At(); at != filch.Never {
				n.now = at
			}
			s.Seek()
			if slices.Contains(n.asked, "n5") {
				told++
			}
			if len(n.asked) == 0 {
				t.Fatal("the thief asks nobody")
			}
			n.now = s.At()
			s.Tick()
		}
		if workflow && told != tries || !workflow && told > tries/2 {
			t.Errorf("workflow %v: the leader was asked in %d of %d tries", workflow, told, tries)
		}
	}
}
