package place

import (
	"encoding/json"

	"github.com/filch-hpc/filch"
)

// Node is node.json: the configuration of a launcher, written by `filch up` and `filch
// join` before starting the launcher.
type Node struct {
	Dir        Dir           `json:"dir"`
	UUID       string        `json:"uuid"`               // of the instance
	Members    int32         `json:"members"`            // planned nodes; fewer than 3 promise nothing about node death
	Slots      int32         `json:"slots"`              // 0: one per processor, or none if SlotsGiven
	SlotsGiven bool          `json:"slotsGiven"`         // by --slots, which goes before the environment and files
	DrainBad   *int32        `json:"drainBad,omitempty"` // by --drain-bad
	Metrics    string        `json:"metrics,omitempty"`  // by --metrics: IP:PORT
	Cores      []int32       `json:"cores"`              // CPUs of the node; empty: all that the launcher may use
	Threads    bool          `json:"threads"`            // slots are hardware threads, not cores
	MemBytes   int64         `json:"memBytes"`           // 0: the memory of the machine or cgroup
	GPUs       []string      `json:"gpus"`
	Labels     filch.Labels  `json:"labels"`
	Role       filch.Role    `json:"role,omitempty"`
	RoleGiven  bool          `json:"roleGiven,omitempty"` // by --role, which goes before the environment and files
	Named      filch.Amounts `json:"resources"`
	Keeper     string        `json:"keeper"` // the filch binary
	Secret     string        `json:"secret"` // path
	Listen     []string      `json:"listen"` // host:port; empty: choose
	Seeds      []string      `json:"seeds"`  // launchers to join through; empty: this node is the first
	Virtual    bool          `json:"virtual"`
	Ends       int64         `json:"ends"` // when the allocation ends, in unix seconds; 0: not known
	Alloc      Alloc         `json:"alloc"`
}

// Alloc holds the settings that come from the node's allocation.
type Alloc struct {
	Group string `json:"group"` // nodes of one group are near to each other; "": not known
	Queue string `json:"queue"` // where the queue of tasks is mirrored; "": no mirror
	After int32  `json:"after"` // job ids up to After belong to the continued instance
	Drain int64  `json:"drain"` // ms before the end, from when on only tasks known to finish start; 0: all tasks start
	Blind bool   `json:"blind"` // how long earlier tasks took is ignored
}

// WriteNode writes node.json.
func WriteNode(n Node) error {
	b, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	return WritePrivate(n.Dir.NodeFile(), append(b, '\n'))
}

// ReadNode reads a node.json.
func ReadNode(path string) (Node, error) {
	var n Node
	b, err := ReadPrivate(path)
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return n, filch.Errorf(filch.Invalid, "cannot read %s: %s", path, Cause(err))
	}
	return n, nil
}
