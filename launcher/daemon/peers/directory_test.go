package peers

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node"
)

// TestNetOfAJob has the address over which the nodes of a job reach this one, n1.
func TestNetOfAJob(t *testing.T) {
	for name, c := range map[string]struct {
		addrs map[filch.NodeName]string
		nodes []filch.NodeName
		want  string
	}{
		"virtual":      {map[filch.NodeName]string{"n1": "127.0.0.1:7", "n2": "127.0.0.1:8"}, []filch.NodeName{"n1", "n2"}, "127.0.0.1"},
		"apart":        {map[filch.NodeName]string{"n1": "10.0.0.1:7", "n2": "10.0.0.2:7"}, []filch.NodeName{"n2", "n1"}, "10.0.0.1"},
		"one-node":     {map[filch.NodeName]string{"n1": "127.0.0.1:7"}, []filch.NodeName{"n1"}, "127.0.0.1"},
		"one-of-two":   {map[filch.NodeName]string{"n1": "127.0.0.1:7", "n2": "10.0.0.2:7"}, []filch.NodeName{"n1"}, ""},
		"mixed":        {map[filch.NodeName]string{"n1": "127.0.0.1:7", "n2": "10.0.0.2:7"}, []filch.NodeName{"n1", "n2"}, ""},
		"mixed-theirs": {map[filch.NodeName]string{"n1": "10.0.0.1:7", "n2": "127.0.0.1:7"}, []filch.NodeName{"n1", "n2"}, "10.0.0.1"},
		"six":          {map[filch.NodeName]string{"n1": "[fd00::1]:7", "n2": "[fd00::2]:7"}, []filch.NodeName{"n1", "n2"}, "fd00::1"},
		"not-known":    {map[filch.NodeName]string{"n2": "10.0.0.2:7"}, []filch.NodeName{"n1", "n2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDirectory("n1")
			for n, a := range c.addrs {
				d.Set(Member{Peer: node.Peer{Name: n}, Addrs: []string{a}})
			}
			var nodes []launcher.NodeRanks
			for _, n := range c.nodes {
				nodes = append(nodes, launcher.NodeRanks{Node: n})
			}
			if got := d.Net(nodes); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
