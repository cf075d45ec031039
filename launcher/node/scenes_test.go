package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// TestScenes plays the scenes of testdata over a few Nodes and holds what they
// say against the files; `make golden` rewrites those.
//
//	nodes N slots=S            a new world
//	life D [bad=NODE:KIND:C]   how long ranks run; the first rank of NODE ends badly
//	submit NODE ranks=R [...]  a job; options as in shapeOf
//	run D                      lets time pass and prints what happens
//	cut A B | heal             nothing passes between two nodes | all does
//	crash NODE [keepers] | restart NODE | declare NODE STANDING
//	cancel NODE JOB | drain NODE | gone NODE CLIENT
//	jobs NODE | slots | explain NODE JOB
func TestScenes(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var w *net
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			if w != nil {
				w.tell = func(line string) { fmt.Fprintf(&out, "%v %s\n", w.age().Round(10*time.Microsecond), line) }
			}
			switch d.Cmd {
			case "nodes":
				var slots int
				d.ScanArgs(t, "slots", &slots)
				var n int
				_, _ = fmt.Sscan(d.CmdArgs[0].Key, &n)
				w = newNet(t, n, int32(slots))
				w.sent = 0
			default:
				w.command(t, d, &out)
			}
			return out.String()
		})
	})
}

func (w *net) command(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	arg := func(i int) string {
		if i >= len(d.CmdArgs) {
			t.Fatalf("%s: %s needs %d arguments", d.Pos, d.Cmd, i+1)
		}
		return d.CmdArgs[i].Key
	}
	at := func(i int) *host {
		h := w.nodes[filch.NodeName(arg(i))]
		if h == nil {
			t.Fatalf("%s: no node %s", d.Pos, arg(i))
		}
		return h
	}
	var id filch.JobID
	switch d.Cmd {
	case "life":
		w.life(t, d)
	case "submit":
		w.client++
		w.submit(at(0).Name, w.client, requestOf(t, d))
	case "run":
		v, err := time.ParseDuration(arg(0))
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		w.run(v)
	case "cut":
		a, b := at(0).Name, at(1).Name
		w.faults.cut = func(from, to filch.NodeName) bool { return from == a && to == b || from == b && to == a }
	case "heal":
		w.faults.cut = nil
	case "crash":
		w.crash(at(0).Name, d.HasArg("keepers"))
	case "restart":
		w.restart(at(0).Name)
	case "declare":
		for s := filch.Up; s <= filch.Left; s++ {
			if s.String() == arg(1) {
				w.declare(at(0).Name, s)
			}
		}
	case "cancel":
		_, _ = fmt.Sscan(arg(1), &id)
		h := at(0)
		h.input(func(o *launcher.Outbox) { h.node.Cancel(w.Now(), id, 0, "user", o) })
	case "gone":
		var c launcher.ClientID
		_, _ = fmt.Sscan(arg(1), &c)
		h := at(0)
		h.input(func(o *launcher.Outbox) { h.node.ClientGone(w.Now(), c, o) })
	case "drain":
		h := at(0)
		h.input(func(o *launcher.Outbox) { h.node.Drain(w.Now(), &launcher.Drain{}, o) })
	default:
		w.show(t, d, at, arg, out)
	}
}

func (w *net) show(t *testing.T, d *datadriven.TestData, at func(int) *host, arg func(int) string, out *strings.Builder) {
	switch d.Cmd {
	case "jobs":
		for _, j := range at(0).node.Jobs(w.Now()) {
			code := "-"
			if j.Code != nil {
				code = fmt.Sprint(*j.Code)
			}
			fmt.Fprintf(out, "%d %s code=%s attempt=%d ranks=%d nodes=%v waited=%.1f %s\n", j.ID, j.State, code, j.Attempt, j.Ranks, j.Nodes, j.Waited, j.Cause)
		}
	case "slots":
		for _, name := range w.names {
			if h := w.nodes[name]; h.Up() {
				s := h.node.Slots()
				fmt.Fprintf(out, "%s free=%d held=%d locked=%d running=%d waiting=%d\n", name, s.Free, s.Held, s.Locked, s.Running, s.Waiting)
			}
		}
	case "explain":
		var id filch.JobID
		_, _ = fmt.Sscan(arg(1), &id)
		x, err := at(0).node.Explain(w.Now(), id)
		if err != nil {
			fmt.Fprintln(out, err.Text)
			return
		}
		fmt.Fprintf(out, "%s: %s\n", x.Phase, x.Text)
	default:
		t.Fatalf("%s: no command %s", d.Pos, d.Cmd)
	}
}

// life plans the ranks: "life 2s bad=n2:exit:3".
func (w *net) life(t *testing.T, d *datadriven.TestData) {
	at, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	var text string
	d.MaybeScanArgs(t, "bad", &text)
	f := strings.Split(text+"::", ":")
	w.behave = func(k *keeper) {
		k.at = at
		if f[0] != string(k.host.Name) {
			return
		}
		e := launcher.RankEnd{Rank: k.start.Launch.Nodes[k.start.Index].Ranks[0].First, Kind: launcher.CauseExit}
		_, _ = fmt.Sscan(f[2], &e.Code)
		switch f[1] {
		case "signal":
			e.Kind = launcher.CauseSignal
		case "missing":
			k.err, k.cause = filch.Errorf(filch.NotFound, "a.out: not on %s", k.host.Name), launcher.CauseNotFound
			return
		}
		k.ends = []launcher.RankEnd{e}
	}
}

func requestOf(t *testing.T, d *datadriven.TestData) launcher.Request {
	r := gang(0)
	var only string
	for key, v := range map[string]*int32{
		"ranks": &r.Shape.Ranks, "min": &r.Shape.MinNodes, "max": &r.Shape.MaxNodes, "per-node": &r.Shape.PerNode,
		"cpus": &r.Shape.PerRank.Slots, "class": &r.Class,
	} {
		var n int
		if d.HasArg(key) {
			d.ScanArgs(t, key, &n)
			*v = int32(n)
		}
	}
	var parent int
	if d.HasArg("parent") {
		d.ScanArgs(t, "parent", &parent)
		r.Parent = filch.JobID(parent)
	}
	if d.HasArg("only") {
		d.ScanArgs(t, "only", &only)
		for name := range strings.SplitSeq(only, "+") {
			r.Shape.Only = append(r.Shape.Only, filch.NodeName(name))
		}
	}
	r.Shape.Exclusive = d.HasArg("exclusive")
	r.Detach = d.HasArg("detach")
	r.Policy.Requeue = d.HasArg("requeue")
	return r
}

// describe is a message as a reader of a scene wants it.
func describe(m launcher.Message) string {
	switch m := m.(type) {
	case *launcher.Ask:
		how := ""
		if m.Half {
			how = " half"
		}
		if m.Wait {
			how = " wait"
		}
		return fmt.Sprintf("Ask %d.%d want=%d%s round=%d", m.Job, m.Attempt, m.Want, how, m.Round)
	case *launcher.Grant:
		var s strings.Builder
		s.WriteString(fmt.Sprintf("Grant %d.%d held=%d version=%d", m.Job, m.Attempt, m.Held, m.Version))
		for _, f := range []struct {
			on   bool
			name string
		}{{m.Waiting, " waiting"}, {m.Refused, " refused"}, {m.Older, " older"}} {
			if f.on {
				s.WriteString(f.name)
			}
		}
		return s.String()
	case *launcher.Release:
		return fmt.Sprintf("Release %d.%d lease=%d round=%d", m.Job, m.Attempt, m.Lease.Serial, m.Round)
	case *launcher.Dispatch:
		return fmt.Sprintf("Dispatch %d.%d index=%d direct=%t go=%t", m.Launch.Ident.Job, m.Launch.Ident.Attempt, m.Index, m.Direct, m.Go)
	case *launcher.Progress:
		phase := [...]string{"none", "preparing", "prepared", "started", "done", "refused"}[m.Phase]
		return fmt.Sprintf("Progress %d.%d index=%d %s ends=%d+%d %s", m.Job, m.Attempt, m.Index, phase, m.First, len(m.Ends), m.Err.Text)
	case *launcher.ProgressAck:
		return fmt.Sprintf("ProgressAck %d.%d index=%d have=%d done=%t again=%t", m.Job, m.Attempt, m.Index, m.Have, m.Done, m.Again)
	case *launcher.Proceed:
		return fmt.Sprintf("Proceed %d.%d index=%d", m.Job, m.Attempt, m.Index)
	case *launcher.Halt:
		return fmt.Sprintf("Halt %d.%d index=%d level=%d signal=%d grace=%v: %s", m.Job, m.Attempt, m.Index, m.Level, m.Signal, m.Grace, m.Reason)
	}
	return fmt.Sprintf("%s%+v", strings.TrimPrefix(fmt.Sprintf("%T", m), "*launcher."), m)
}

func describeEvent(e launcher.Event) string {
	switch e := e.(type) {
	case launcher.Accepted:
		return fmt.Sprintf("Accepted %d size=%d", e.Job, e.Size)
	case launcher.Refused:
		return fmt.Sprintf("Refused %d: %s (%s)", e.Code, e.Err.Text, e.Err.Hint)
	case launcher.StillWaiting:
		return fmt.Sprintf("StillWaiting %d: %s", e.Job, e.Text)
	case launcher.Granted:
		return fmt.Sprintf("Granted %d step %d", e.Job, e.Step)
	case launcher.Started:
		var on []string
		for _, n := range e.Nodes {
			on = append(on, fmt.Sprintf("%s:%v", n.Node, n.Ranks))
		}
		return fmt.Sprintf("Started %d on %s", e.Job, strings.Join(on, " "))
	case launcher.RankEnds:
		return fmt.Sprintf("RankEnds %d: %d", e.Job, len(e.Ranks))
	case launcher.Ending:
		return fmt.Sprintf("Ending %d: %s", e.Job, e.Text)
	case launcher.Ended:
		return fmt.Sprintf("Ended %d %s code=%d bad=%d %s", e.Job, e.State, e.Code, e.Bad, e.Cause.Text)
	}
	return fmt.Sprintf("%T%+v", e, e)
}
