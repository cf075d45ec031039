package place

import (
	"encoding/json"

	"github.com/filch-hpc/filch"
)

// Node is node.json: what a launcher is to be, written by `filch up` and
// `filch join` before they start it.
type Node struct {
	Dir      Dir      `json:"dir"`
	UUID     string   `json:"uuid"`     // of the instance
	Members  int32    `json:"members"`  // how many were planned; fewer than 3 promise nothing about node death
	Slots    int32    `json:"slots"`    // 0: one per core
	Cores    []int32  `json:"cores"`    // of a virtual node; empty: all that the launcher may use
	MemBytes int64    `json:"memBytes"` // 0: what the machine or cgroup has
	GPUs     []string `json:"gpus"`
	Keeper   string   `json:"keeper"` // the filch binary
	Secret   string   `json:"secret"` // path
	Listen   []string `json:"listen"` // host:port; empty: choose
	Seeds    []string `json:"seeds"`  // addresses of launchers to join through; empty: this is the first
	Virtual  bool     `json:"virtual"`
	Ends     int64    `json:"ends"` // when the node is taken away, in unix seconds; 0: not known
	Alloc    Alloc    `json:"alloc"`
	Tuning   Tuning   `json:"tuning"`
}

// Alloc is what comes of the allocation that the node is of.
type Alloc struct {
	Group string `json:"group"` // the nodes of one are near to each other; "": nothing is known
	Queue string `json:"queue"` // where the queue of tasks is mirrored; "": it is not
	After int32  `json:"after"` // job ids up to this one are those of an instance that is gone on with
	Drain int64  `json:"drain"` // ms before the end, from when on only what is known to finish is started; 0: everything is
	Blind bool   `json:"blind"` // how long others took is not looked at
}

// Tuning is what few people change; 0 is the default.
type Tuning struct {
	LogBytes   int64 `json:"logBytes"` // of one log file; two are kept
	Debug      bool  `json:"debug"`
	Spare      int   `json:"spare"`      // keepers kept ready
	StoreBytes int64 `json:"storeBytes"` // that the node may keep of the shared store
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
		return n, filch.Errorf(filch.Invalid, "cannot read %s: %s", path, err.Error())
	}
	return n, nil
}
