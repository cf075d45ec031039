package wire

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// The verbs of a [Query] and what answers them, as JSON. JOB is a job id in
// digits or "last", the newest job of that launcher; a job of another origin
// is asked for there. Times are as time.ParseDuration reads them.
const (
	VerbNodes   = "nodes"   // -> []NodeInfo, by name
	VerbPs      = "ps"      // -> []launcher.JobInfo of all nodes, by id
	VerbInfo    = "info"    // JOB -> launcher.JobInfo
	VerbWait    = "wait"    // JOB [TIME] -> launcher.JobInfo once it ended, or after TIME as it is
	VerbExplain = "explain" // JOB -> launcher.Explanation
	VerbCancel  = "cancel"  // JOB SIGNAL -> launcher.JobInfo
	VerbSignal  = "signal"  // JOB SIGNAL -> launcher.JobInfo
	VerbLogs    = "logs"    // JOB RANK|"" OFFSET [TIME] -> LogChunk; waits for more until TIME
	VerbDrain   = "drain"   // NODE|"" -> {}
	VerbDown    = "down"    // NODE|"all"|"" [TIME] -> {}; jobs get TERM, and KILL after TIME
	VerbVersion = "version" // -> VersionInfo
	VerbStats   = "stats"   // -> StatsInfo
)

// NodeInfo is a member of the instance.
type NodeInfo struct {
	launcher.SlotInfo
	State       string   `json:"state"` // up, suspect, draining, dead, left
	PID         int      `json:"pid"`   // 0 unknown
	Addrs       []string `json:"addrs"`
	Local       bool     `json:"local"`
	Incarnation uint64   `json:"incarnation"`
	Build       string   `json:"build"`
	Silent      bool     `json:"silent,omitempty"` // did not answer: the numbers are its last gossip
}

// VersionInfo is what a launcher is.
type VersionInfo struct {
	Build string `json:"version"`
	Wire  int    `json:"wire"`
	Go    string `json:"go"`
}

// StatsInfo is what a launcher counted since its start and holds now.
type StatsInfo struct {
	Node       filch.NodeName    `json:"node"`
	UptimeSecs float64           `json:"uptime"`
	Counts     map[string]uint64 `json:"counts"`
	Clients    int               `json:"clients"`
	Routes     int               `json:"routes"`
	Keepers    int               `json:"keepers"`
	Conns      int               `json:"conns"`
	Goroutines int               `json:"goroutines"`
	HeapBytes  uint64            `json:"heap_bytes"`
}

// LogChunk is a part of what a detached job printed.
type LogChunk struct {
	Pieces []LogPiece `json:"pieces"`
	Next   uint64     `json:"next"`           // the OFFSET that goes on from here
	End    bool       `json:"end"`            // nothing will follow
	Lost   uint64     `json:"lost,omitempty"` // about as many bytes were dropped from before these, to stay within the limit
}

// LogPiece is one piece, as [Output] has it.
type LogPiece struct {
	Rank    filch.Rank `json:"rank"`
	Stream  uint8      `json:"stream"`
	Partial bool       `json:"partial,omitempty"`
	Data    []byte     `json:"data"`
}
