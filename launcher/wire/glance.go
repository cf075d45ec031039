package wire

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// Limits of a [Glance] and of an [Overview]: a screen shows no more, and a look at
// 1,000 nodes stays far below [MaxAnswer].
const (
	GlanceJobs  = 200 // jobs without an end, of one node and of all
	GlanceEnded = 20  // of these, jobs that ended last
	GlanceNames = 8   // names of nodes of a job
	GlanceTasks = 64  // tasks of the chosen job, the longest first
	GlanceLive  = 64  // jobs with tasks on a node
	GlanceText  = 256 // bytes of a name, a cause or what a gang lacks
)

// Glance is what a screen shows of one node.
type Glance struct {
	Node NodeGlance         `json:"node"`
	Jobs []launcher.JobInfo `json:"jobs"` // whose origin, leader or home the node is
	Live []LiveTasks        `json:"live"`
	More int                `json:"more,omitempty"` // jobs left out

	Tasks []launcher.RunningTask `json:"tasks,omitempty"` // of the chosen job, on the node
}

// LiveTasks counts a job's tasks without an end on one node, and describes a gang of the
// job that gathers slots there.
type LiveTasks struct {
	launcher.Live
	Gathers int64  `json:"gathers,omitempty"`
	Lacks   string `json:"lacks,omitempty"` // of one of these
	Demand
}

// Demand is what the ready tasks of a job can use; see [launcher.TasksHere].
type Demand struct {
	Cap     int32 `json:"cap,omitempty"`
	Each    int32 `json:"slots_each,omitempty"`
	Resting int64 `json:"resting,omitempty"`
}

// Overview joins the glances at all nodes.
type Overview struct {
	Self  filch.NodeName         `json:"self"`  // the node that answers
	Nodes []NodeGlance           `json:"nodes"` // members by name
	Jobs  []OverviewJob          `json:"jobs"`  // by id
	More  int                    `json:"more,omitempty"`
	Tasks []launcher.RunningTask `json:"tasks,omitempty"`
	// Rest is set for a page while nothing happens: the next look may come so many seconds later.
	Rest float64 `json:"rest,omitempty"`
}

// NodeGlance is one node on a screen. A silent node has no Work.
type NodeGlance struct {
	Node    filch.NodeName    `json:"name"`
	State   string            `json:"state"` // as in [NodeInfo]
	Silent  bool              `json:"silent,omitempty"`
	Local   bool              `json:"local,omitempty"`
	Slots   int32             `json:"slots"`
	Stuck   int32             `json:"stuck,omitempty"`
	Labels  filch.Labels      `json:"labels,omitempty"`
	Holders []launcher.Holder `json:"holders"` // jobs with slots of the node, by id
	Alloc   string            `json:"allocation,omitempty"`
	Work    launcher.Work     `json:"work"`
}

// OverviewJob is one job of an [Overview].
type OverviewJob struct {
	launcher.JobInfo
	Gathers int64  `json:"gathers,omitempty"`
	Lacks   string `json:"lacks,omitempty"`
	Demand
}
