package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/bringup"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Thresholds of the doctor's findings.
const (
	slowSync  = 200 * time.Millisecond
	clockStep = time.Second
	lowShare  = 0.10 // of a disk: with less free the doctor warns
	fullShare = 0.75 // of the quota: beyond, a launcher takes no more detached jobs
)

// finding is a problem, and its remedy.
type finding struct {
	Level string `json:"level"` // error: broken; warning: may break
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`
}

func doctorCommand(g *cli.Global) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "doctor",
		GroupID: "nodes",
		Short:   "say what is wrong with the instance, and what to do",
		Long: `Asks every node how it is, and names what is wrong: nodes that do not answer, a
side that is cut off from most others, records with too few replicas or none, a
disk that is full or slow, a clock that was set, builds that differ. Exits with 1
when something does not work.`,
		Example: "  filch doctor\n  filch doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			nodes, err := cli.QueryNodes(c)
			if err != nil {
				return err
			}
			roster, err := queryRoster(c)
			if err != nil {
				return err
			}
			found := append(examineNodes(nodes), examineStore(roster)...)
			return tell(found, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// tell prints the findings.
func tell(found []finding, asJSON bool) error {
	bad := false
	for _, f := range found {
		bad = bad || f.Level == "error"
	}
	if asJSON {
		if found == nil {
			found = []finding{}
		}
		if err := ui.PrintJSON(found); err != nil {
			return err
		}
	} else if len(found) == 0 {
		ui.Printf("nothing is wrong\n")
	} else {
		for _, f := range found {
			ui.Printf("%s: %s\n", f.Level, ui.Clean(f.Text))
			if f.Hint != "" {
				ui.Printf("  %s\n", ui.Clean(f.Hint))
			}
		}
	}
	if bad {
		return ui.Exit(1)
	}
	return nil
}

// examineNodes examines the list of nodes.
func examineNodes(nodes []wire.NodeInfo) (found []finding) {
	by := map[string][]filch.NodeName{}
	builds := map[string][]filch.NodeName{}
	stuck, live := []filch.NodeName{}, 0
	var drained []wire.NodeInfo
	for _, n := range nodes {
		state := n.State
		if state == "up" && n.Silent {
			state = "silent"
		}
		by[state] = append(by[state], n.Node)
		if n.State == "up" || n.State == "draining" {
			live++
			builds[n.Build] = append(builds[n.Build], n.Node)
		}
		if n.State == "draining" && n.Drain != nil {
			drained = append(drained, n)
		}
		if n.Stuck > 0 {
			stuck = append(stuck, n.Node)
		}
	}
	say := func(level string, names []filch.NodeName, text, hint string) {
		if len(names) > 0 {
			verb := " is "
			if len(names) > 1 {
				verb = " are "
			}
			found = append(found, finding{level, spec.FormatHosts(names) + verb + text, hint})
		}
	}
	say("error", by["dead"], "dead: no sign of life, and a redial failed", "filch up on that machine starts its launchers again; what ran there is lost")
	say("warning", by["suspect"], "suspected: no sign of life for two seconds", "no new work goes there; five seconds after the last sign of life a node is dead")
	say("warning", by["gone"], "gone: its launcher is, and its machine answers", "filch up on that machine starts it again; five seconds after the last sign of life a node is dead")
	say("warning", by["silent"], "silent: no answer to questions, though there are signs of life", "the machine may be overloaded; filch nodes shows what was last told")
	say("warning", stuck, "short of slots: there are processes that cannot be killed", "they hang in the kernel, mostly on a file system; free them or reboot")
	found = append(found, examineDrains(drained, live)...)
	if len(builds) > 1 {
		found = append(found, finding{"warning", fmt.Sprintf("%d builds of filch are mixed", len(builds)), "use one build on all nodes; filch nodes --json shows them"})
	}
	if live < bringup.PromisedNodes {
		found = append(found, finding{"warning", fmt.Sprintf("%s live: with fewer than %d nothing is promised when one dies", ui.Plural(live, "node"), bringup.PromisedNodes), ""})
	}
	return found
}

// examineDrains names the draining nodes among live nodes.
func examineDrains(drained []wire.NodeInfo, live int) (found []finding) {
	for _, n := range drained {
		found = append(found, finding{"warning", string(n.Node) + " drains" + bringup.DrainLine(n.Drain, time.Now()), "it starts nothing; filch drain --undo " + string(n.Node) + " ends that"})
	}
	if len(drained) == live && live > 0 {
		found = append(found, finding{"error", "all nodes drain: nothing is started", "filch drain --undo NODE has one take work again"})
	}
	return found
}

// examineStore examines the store: the view of the answering node, and the
// records on each node.
func examineStore(all []wire.RosterInfo) (found []finding) {
	add := func(level, hint, format string, args ...any) {
		found = append(found, finding{level, fmt.Sprintf(format, args...), hint})
	}
	own := all[0]
	switch {
	case !own.Known:
		add("error", "it may just have begun; else it reaches none of the seats, or their disks are gone or damaged: filch roster recover --accept-loss", "%s has not heard of the roster: it has no records", own.Node)
	case !own.Majority:
		add("error", "records cannot be written on this side; it heals by itself when the network does", "%s sees at most half of the %d members: it is cut off, or the others are dead", own.Node, len(own.Members))
	}
	if n := len(own.Lost); n > 0 {
		add("error", "start the nodes again that had them; if their disks are gone: filch roster recover --accept-loss", "%d of %d shards have no replica left", n, own.Shards)
	}
	if own.Short > 0 {
		add("warning", "this mends itself within seconds while enough nodes live", "%d of %d shards have fewer replicas than there could be, %d are growing", own.Short, own.Shards, own.Learning)
	}
	gone, unseated := lostSeats(all)
	level, hint := "warning", "another node takes the seat when it is declared dead"
	if own.Known && rosterLost(all) {
		level, hint = "error", "without a majority of the seats nothing can be moved away from nodes that die: start them again; if their disks are gone or damaged: filch roster recover --accept-loss"
	}
	if n := len(gone); n > 0 {
		add(level, hint, "%d of %d seats of the roster do not answer: %s", n, len(own.Seats), spec.FormatHosts(gone))
	}
	if n := len(unseated); n > 0 {
		if level == "warning" {
			hint = "its disk was damaged, or it was just seated; another node takes the seat"
		}
		add(level, hint, "%d of %d seats of the roster do not know what they promised: %s", n, len(own.Seats), spec.FormatHosts(unseated))
	}
	for i := range all {
		if !all[i].Silent {
			found = append(found, examineDisk(&all[i])...)
		}
	}
	return append(found, examineRoom(all)...)
}

// examineRoom examines the free space on the nodes' disks; virtual nodes of a
// machine share a disk.
func examineRoom(all []wire.RosterInfo) (found []finding) {
	type disk struct{ size, percent int64 } // nodes do not answer at the same moment
	var disks []disk
	on, free := map[disk][]filch.NodeName{}, map[disk]int64{}
	for i := range all {
		r := &all[i]
		if r.Silent || r.Disk.Size == 0 {
			continue
		}
		if float64(r.Disk.Free) < lowShare*float64(r.Disk.Size) {
			d := disk{r.Disk.Size, r.Disk.Free * 100 / r.Disk.Size}
			if on[d] == nil {
				disks = append(disks, d)
			}
			on[d], free[d] = append(on[d], r.Node), r.Disk.Free
		}
		if r.Disk.Cut > 0 {
			found = append(found, finding{
				"warning", fmt.Sprintf("%s: the output of %s found no room on its disk", r.Node, ui.Plural(r.Disk.Cut, "task")),
				"the tasks ran on; filch logs JOB and filch info JOB.TASK say which; make room on the disk of FILCH_LOCAL",
			})
		}
	}
	for _, d := range disks {
		found = append(found, finding{
			"warning", fmt.Sprintf("%s: the disk has %s free of %s (%d %%)", spec.FormatHosts(on[d]), sizeText(free[d]), sizeText(d.size), d.percent),
			"make room on the disk of FILCH_LOCAL: output of tasks that finds none is cut, and without records no job begins",
		})
	}
	return found
}

// examineDisk examines a node's log and clock.
func examineDisk(r *wire.RosterInfo) (found []finding) {
	add := func(level, hint, format string, args ...any) {
		found = append(found, finding{level, string(r.Node) + ": " + fmt.Sprintf(format, args...), hint})
	}
	h := &r.Here
	full := h.QuotaBytes > 0 && float64(h.LiveBytes) > fullShare*float64(h.QuotaBytes)
	if h.DiskTrouble != "" {
		hint := "make room on the disk of FILCH_LOCAL; the launcher tries again by itself"
		if !strings.Contains(h.DiskTrouble, unix.ENOSPC.Error()) && !strings.Contains(h.DiskTrouble, unix.EDQUOT.Error()) {
			hint = "look at the disk of FILCH_LOCAL, and who may write there; the launcher tries again by itself"
		}
		if full {
			hint = "with more in FILCH_STORE_BYTES, `filch down --here` and `filch up` there, one node after the other"
		}
		add("error", hint, "the disk takes no records: %s", h.DiskTrouble)
	}
	if h.Mirror != "" {
		add("error", "tasks that run once begin when it is written; until then filch up --resume may have to do again what has ended",
			"the queue's mirror is not written: %s; %s wait for it", h.Mirror, ui.Plural(int(h.MirrorHeld), "task"))
	}
	if s := time.Duration(h.SyncWait * float64(time.Second)); s > slowSync {
		add("warning", "FILCH_LOCAL should be on a disk of the node that little else uses", "the disk is slow: a record took %s to be on it", ui.ShortTime(s))
	}
	if full {
		add("error", "the oldest ended jobs are dropped; if that is not enough, cancel some, or set FILCH_STORE_BYTES and start the launcher again",
			"its records take %s of %s: it takes no more jobs but attached runs", sizeText(h.LiveBytes), sizeText(h.QuotaBytes))
	}
	if h.SkippedBytes > 0 {
		add("warning", "other replicas have them, where there are any; look at the disk", "%s of its records could not be read when it began", sizeText(h.SkippedBytes))
	}
	if j := time.Duration(h.ClockJump * float64(time.Second)); math.Abs(h.ClockJump) > clockStep.Seconds() {
		add("warning", "no promise depends on it, but the times in ps and logs do", "its clock was set by %s while the launcher ran", ui.ShortTime(j.Abs()))
	}
	return found
}
