package policy

import (
	"fmt"
	"time"
)

// Profile is what a node knows of the tasks of a workflow: as the file states, and as tasks
// of the same kind took and wrote.
type Profile struct {
	Tasks   int
	Input   float64       // bytes that the tasks read
	Fewer   float64       // the same, if each node fetches an output once at most
	Initial float64       // of these, the bytes that no task writes
	Fan     int           // the most tasks that read one output
	Roots   int           // tasks that wait for no other
	Crowd   float64       // the largest part of the outputs so far that one node has; 0: not known
	Work    time.Duration // of all tasks
	Rate    float64       // bytes per second from other nodes; 0: not known
}

// Read takes in an output that some tasks read, on so many nodes.
func (f *Profile) Read(bytes float64, tasks, nodes int) {
	f.Input += bytes * float64(tasks)
	f.Fewer += bytes * float64(min(tasks, nodes))
	if bytes > 0 {
		f.Fan = max(f.Fan, tasks)
	}
}

// Choice is the policy that [Auto] chose for a workflow, with the reason.
type Choice struct {
	Kind Kind
	Why  string
}

// String is the choice with the reason, for people.
func (c Choice) String() string { return c.Kind.String() + ": " + c.Why }

// The shares of the transfers in the time of the tasks, if every task fetched its input: below
// autoData the place of the input counts for nothing, and above autoBound it counts for all,
// if no output has more than autoFan readers. With more readers the tasks would crowd on the
// node of the output.
const (
	autoData  = 0.06
	autoBound = 0.66
	autoFan   = 2
)

// A workflow is shallow with at most autoDepth tasks for each task that waits for no other. Then the
// inputs of most tasks come into being on all nodes alike, and binding tasks to their input costs no
// balance, unless a node got more than autoCrowd of the outputs.
const (
	autoDepth = 2.5
	autoCrowd = 0.4
)

// shallow reports whether tasks may be bound to the outputs that they read since the workflow is
// shallow.
func (f *Profile) shallow() bool {
	return float64(f.Tasks) <= autoDepth*float64(f.Roots) && !Crowded(f.Crowd) && f.share(f.Fewer-f.Initial) >= autoData
}

// Crowded reports whether a node has too large a part of the outputs for tasks to be bound to their
// input.
func Crowded(part float64) bool { return part > autoCrowd }

// Choose chooses between balance alone, the node that would end a task first, and the node of
// the input.
func (f *Profile) Choose() Choice {
	share := f.share(f.Fewer)
	why := fmt.Sprintf("transfers of all input would take %.2g %% of the time", 100*share)
	switch {
	case share < autoData:
		return Choice{MLB, why}
	case share > autoBound && (f.Fan <= autoFan || mutantCrowds):
		return Choice{MDL, fmt.Sprintf("%s, and no output has more than %d readers", why, autoFan)}
	case f.Fan <= autoFan && f.shallow():
		return Choice{MDL, fmt.Sprintf("%s, no output has more than %d readers, and most tasks wait for none or one", why, autoFan)}
	}
	return Choice{ADAGE, why}
}

// autoRate is the bandwidth before the first transfer, 1 Gb/s: where transfers take all the
// time, the first choice may bind all later tasks.
const autoRate = 1e9 / 8

// share is the part of the transfer of bytes in the time of the tasks.
func (f *Profile) share(bytes float64) float64 {
	rate := f.Rate
	if rate <= 0 {
		rate = autoRate
	}
	moving := TransferTime(int64(min(bytes, 1<<62)), rate)
	return float64(moving) / float64(max(f.Work+moving, 1))
}
