package instance

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/filch-hpc/filch"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/mtc/record"
)

// show prints a thing on one line, as a person reads it: what is asked, granted,
// started or told, of which job, and how much. What has no words of its own is
// printed with its fields.
func show(thing any) string {
	switch m := thing.(type) {
	case launcher.Message:
		return showMessage(m)
	case launcher.Event:
		return showEvent(m)
	case *launcher.Launch:
		return fmt.Sprintf("ranks of %s on %s, %d ranks in all", m.Ident, showNodes(m.Nodes), m.Size)
	case *launcher.Deed:
		return fmt.Sprintf("%s %s%s", deedName(m.Kind), m.Ident, because(m.Reason))
	case *launcher.Note:
		if m.Job != 0 {
			return fmt.Sprintf("of job %d: %s", m.Job, m.Text)
		}
		return m.Text
	case node.Peer:
		return fmt.Sprintf("%s, incarnation %d, is %s", m.Name, m.Incarnation, m.Standing)
	case *demand:
		return fmt.Sprintf("%d slots for %v", m.Slots, m.Runs)
	}
	if text, ok := showWord(thing); ok {
		return text
	}
	v := reflect.ValueOf(thing)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		return v.String()
	}
	return fmt.Sprintf("%s%+v", v.Type().Name(), v.Interface())
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func showNodes(nodes []launcher.NodeRanks) string {
	var names []string
	for _, n := range nodes {
		count := int32(0)
		for _, s := range n.Ranks {
			count += s.Count
		}
		names = append(names, fmt.Sprintf("%s (%d)", n.Node, count))
	}
	return strings.Join(names, ", ")
}

func showMessage(m launcher.Message) string {
	switch m := m.(type) {
	case *launcher.Ask:
		how := ""
		if m.Half {
			how += ", half of what is free at most"
		}
		if m.Wait {
			how += ", and waits"
		}
		return fmt.Sprintf("asks for %d ranks of %s for %d.%d, round %d%s", m.Want, showRoom(m.Each), m.Job, m.Attempt, m.Round, how)
	case *launcher.Grant:
		text := fmt.Sprintf("holds %d ranks for %d.%d, lease %d, version %d", m.Held, m.Job, m.Attempt, m.Lease.Serial, m.Version)
		if m.Waiting {
			text += fmt.Sprintf("; the rest waits for job %d, which has %d", m.Holder, m.Holds)
		}
		if m.Refused {
			text += "; lends nothing"
		}
		return text
	case *launcher.Release:
		return fmt.Sprintf("gives back what %d.%d holds, lease %d, round %d", m.Job, m.Attempt, m.Lease.Serial, m.Round)
	case *launcher.Renew:
		return fmt.Sprintf("still wants %d leases, the first of job %d", len(m.Leases), firstJob(m))
	case *launcher.Dispatch:
		return fmt.Sprintf("launches %s on %s", m.Launch.Ident, showNodes(m.Launch.Nodes))
	case *launcher.Progress:
		phase := [...]string{"none", "preparing", "prepared", "started", "done", "refused"}[min(int(m.Phase), 5)]
		return fmt.Sprintf("%d.%d part %d is %s, %d ends%s", m.Job, m.Attempt, m.Index, phase, int(m.First)+len(m.Ends), because(m.Err.Text))
	case *launcher.ProgressAck:
		return fmt.Sprintf("has heard %d ends of %d.%d part %d, done %t", m.Have, m.Job, m.Attempt, m.Index, m.Done)
	case *launcher.Proceed:
		return fmt.Sprintf("opens the gate of %d.%d part %d", m.Job, m.Attempt, m.Index)
	case *launcher.Halt:
		return fmt.Sprintf("stops %d.%d part %d with signal %d%s", m.Job, m.Attempt, m.Index, m.Signal, because(m.Reason))
	case *launcher.TaskWord:
		return fmt.Sprintf("tasks: %s, %d bytes", m.Name(), len(m.Body))
	case *launcher.TakeOver:
		return fmt.Sprintf("takes job %d over, attempt %d part %d, takeover %d", m.Job, m.Attempt, m.Index, m.Hop)
	}
	return showStep(m)
}

// showStep is what nodes say of the steps of a job.
func showStep(m launcher.Message) string {
	switch m := m.(type) {
	case *launcher.StepAsk:
		return fmt.Sprintf("asks job %d for room for its step %d", m.Parent, m.Job)
	case *launcher.StepGrant:
		switch {
		case m.Refused:
			return fmt.Sprintf("refuses step %d of job %d%s", m.Job, m.Parent, because(m.Err.Text))
		case len(m.Nodes) == 0:
			return fmt.Sprintf("lets step %d of job %d wait behind step %d", m.Job, m.Parent, m.Behind)
		}
		return fmt.Sprintf("gives step %d of job %d %s", m.Job, m.Parent, showNodes(m.Nodes))
	case *launcher.StepDone:
		return fmt.Sprintf("step %d gives back what it has of job %d", m.Job, m.Parent)
	case *launcher.StepDoneAck:
		return fmt.Sprintf("has back what step %d had of job %d", m.Job, m.Parent)
	}
	return fmt.Sprintf("%s %+v", nameOf(m), reflect.ValueOf(m).Elem().Interface())
}

func firstJob(m *launcher.Renew) any {
	if len(m.Leases) == 0 {
		return "none"
	}
	return m.Leases[0].Job
}

func showRoom(r filch.Room) string {
	text := fmt.Sprintf("%d slots", r.Slots)
	if r.MemBytes > 0 {
		text += fmt.Sprintf(" and %d GiB", r.MemBytes>>30)
	}
	if r.GPUs > 0 {
		text += fmt.Sprintf(" and %d GPUs", r.GPUs)
	}
	return text
}

// showEvent is what a client hears.
func showEvent(e launcher.Event) string {
	switch e := e.(type) {
	case launcher.Accepted:
		return fmt.Sprintf("job %d of %d ranks is accepted", e.Job, e.Size)
	case launcher.Refused:
		return fmt.Sprintf("refused with %d: %s", e.Code, e.Err.Text)
	case launcher.StillWaiting:
		return fmt.Sprintf("job %d waits: %s", e.Job, e.Text)
	case launcher.Granted:
		return fmt.Sprintf("job %d has room as step %d", e.Job, e.Step)
	case launcher.Started:
		return fmt.Sprintf("job %d has started on %s", e.Job, showNodes(e.Nodes))
	case launcher.Ending:
		return fmt.Sprintf("job %d is being ended: %s", e.Job, e.Text)
	case launcher.Ended:
		return fmt.Sprintf("job %d ended as %s with %d%s", e.Job, e.State, e.Code, because(e.Cause.Text))
	case launcher.TaskNews:
		what := [...]string{"are accepted", "are refused", "were added to", "go on", "have ended"}[min(int(e.What), 4)]
		text := fmt.Sprintf("the tasks of job %d %s, %d of %d ended, %+v", e.Job, what, e.Tally.Sum(), e.Total, counts(e.Tally))
		if e.Err != nil {
			text += ": " + e.Err.Text
		}
		return text
	}
	return fmt.Sprintf("%s%+v", nameOf(e), e)
}

// showWord is what a keeper or a runner says.
func showWord(thing any) (string, bool) {
	switch k := thing.(type) {
	case launcher.KeeperReady:
		if k.Err != nil {
			return fmt.Sprintf("%s cannot start: %s", k.Ident, k.Err.Text), true
		}
		return fmt.Sprintf("%s is ready", k.Ident), true
	case launcher.RanksStarted:
		return fmt.Sprintf("ranks of %s run", k.Ident), true
	case launcher.RanksEnded:
		return fmt.Sprintf("%d ranks of %s ended, the first with cause %d, code %d", len(k.Ends), k.Ident, k.Ends[0].Kind, k.Ends[0].Code), true
	case launcher.KeeperDone:
		return fmt.Sprintf("%s is over", k.Ident), true
	case launcher.KeeperGone:
		return fmt.Sprintf("the keeper of %s is gone%s", k.Ident, because(k.Text)), true
	case launcher.Adopted:
		return fmt.Sprintf("the keeper of %s turns up, %d of its ranks have ended", k.Start.Launch.Ident, len(k.Ended)), true
	case launcher.TaskEnd:
		return fmt.Sprintf("task %d ended with cause %d, code %d", k.Serial, k.Kind, k.Code), true
	}
	return "", false
}

// counts is a tally without the usage, which no simulated process has.
func counts(t record.Tally) any {
	return struct{ OK, Failed, Killed, Lost, Skipped, Cancelled int32 }{t.OK, t.Failed, t.Killed, t.Lost, t.Skipped, t.Cancelled}
}
