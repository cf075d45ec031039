package query

import (
	"fmt"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

func TestHoldersOfAllNodesAreAddedUp(t *testing.T) {
	node := func(name filch.NodeName, all ...launcher.Holder) (n wire.NodeInfo) {
		n.Node, n.Holders = name, all
		return n
	}
	got := sumHolders([]wire.NodeInfo{
		node("n1", launcher.Holder{Job: 3, Slots: 1, Tasks: 1, Left: 5}, launcher.Holder{Job: 9, Slots: 1, Gathers: true}, launcher.Holder{Job: 4, Slots: 2, Tasks: 2, Left: 7}),
		node("n2", launcher.Holder{Job: 3, Slots: 4, Tasks: 2, Spare: 2}, launcher.Holder{Job: 4, Slots: 1, Tasks: 1, Left: 8}, launcher.Holder{Job: 5, Slots: 3}),
		node("n3", launcher.Holder{Job: 4, Tasks: 1, Left: 9}, launcher.Holder{Job: 6, Tasks: 1}), // gangs without a rank on their owner
	}, 9)
	want := "[{{3 5 3 false 2 0 }   [n1 n2]} {{4 3 4 false 0 9 }   [n1 n2]} {{5 3 0 false 0 0 }   [n2]}]"
	if text := fmt.Sprint(got); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// An answer of another node is JSON, and becomes what this node would have answered.
func TestAnswersOfOtherNodesAreRead(t *testing.T) {
	text := jsonText(`{"id": 7, "state": "waiting", "short": true}`)
	x, err := as[launcher.Explanation](&text)
	if err != nil || x.Job != 7 || !x.Short {
		t.Errorf("got %+v, %v", x, err)
	}
	bad := jsonText(`{"id": "seven"}`)
	if x, err := as[launcher.Explanation](&bad); err == nil {
		t.Errorf("got %+v of a job called seven", x)
	}
}

func TestTasksAreNamed(t *testing.T) {
	for want, all := range map[string][]int32{"task 7.1": {1}, "tasks 7.1, 7.20": {1, 20}} {
		if got := launcher.ListTasks(7, all, nil); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
