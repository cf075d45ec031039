package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/batch"
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
	asJSON, file := false, ""
	c := &cobra.Command{
		Use:     "doctor",
		GroupID: "nodes",
		Short:   "find faults of the instance, and say how to mend them",
		Long: `Asks every node for its state and names the faults: nodes that do not answer, nodes
that are cut off from most others, records with too few replicas or none, disks that
are full or slow, clocks that were set, builds that differ, pools that fail. Exits with 1 when
something does not work.

With --bundle, collects for a maintainer what is known of the instances on this
machine, or of the one of --instance or FILCH_INSTANCE, into one file: versions, nodes,
roster, jobs, settings with their origins, variables FILCH_*, and the ends of the
launchers' logs. Launchers need not run or answer. Secrets, the names of jobs, the output of
programs and other variables are left out. The file has at most 16 MiB before compression; README.txt
in the file says what is missing.`,
		Example: "  filch doctor\n  filch doctor --json\n  filch doctor --bundle fault.tar.gz",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("bundle") {
				if asJSON {
					return ui.Misused(filch.Errorf(filch.Invalid, "--bundle writes a file, and --json does not go with it"))
				}
				return writeBundle(g, file)
			}
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
			pools, err := batch.Troubles(c)
			if err != nil && len(found) == 0 { // else the findings say why records cannot be read
				return err
			}
			return tell(append(found, examinePools(pools)...), asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&file, "bundle", "", "write what a maintainer needs into `FILE`, a tar in gzip, without secrets")
	return c
}

func examinePools(list []batch.Trouble) (found []finding) {
	for _, t := range list {
		level := "warning"
		if t.Broken {
			level = "error"
		}
		found = append(found, finding{level, t.Text, t.Hint})
	}
	return found
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
				ui.Printf("  hint: %s\n", ui.Clean(f.Hint))
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
	say("error", by["dead"], "dead: no heartbeats come, and no connection is accepted", "a node that only stood still, or was cut off, comes back by itself; otherwise filch up on that machine starts the launchers again; ranks that ran there are lost, tasks start again on other nodes, and tasks of --once are lost")
	say("warning", by["suspect"], "suspect: no heartbeat for two seconds", "the node gets no new work, and counts as dead five seconds after the last heartbeat")
	say("warning", by["gone"], "gone: the launcher has ended, and the machine answers", "filch up on that machine starts the launcher again; the node counts as dead five seconds after the last heartbeat")
	say("warning", by["silent"], "silent: heartbeats come, but no answers", "the machine may be overloaded; filch nodes shows the last known state")
	say("warning", stuck, "short of slots: some processes cannot be killed", "the processes hang in the kernel, mostly on a file system; mend the file system or reboot")
	found = append(found, examineDrains(drained, live)...)
	if len(builds) > 1 {
		found = append(found, finding{"warning", fmt.Sprintf("%d builds of filch are mixed", len(builds)), "use one build on all nodes; filch nodes --json shows them"})
	}
	if live < bringup.PromisedNodes {
		found = append(found, finding{"warning", fmt.Sprintf("the instance has %s: with fewer than %d, the death of a node may lose records and jobs", filch.Plural(live, "live node"), bringup.PromisedNodes), "filch invite and filch join add machines; filch up --nodes 4 starts an instance of four launchers on one machine"})
	}
	return found
}

// examineDrains names the draining nodes among live nodes.
func examineDrains(drained []wire.NodeInfo, live int) (found []finding) {
	for _, n := range drained {
		found = append(found, finding{"warning", string(n.Node) + " drains" + bringup.DrainLine(n.Drain, time.Now()), "the node starts nothing; filch drain --undo " + string(n.Node) + " ends that"})
	}
	if len(drained) == live && live > 0 {
		found = append(found, finding{"error", "all nodes drain: no node starts work", "filch drain --undo NODE ends the drain of a node"})
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
		add("error", "normal for a node that has just started; otherwise the node reaches no seat of the roster: start the nodes with the seats again; if their disks are gone or damaged: filch roster recover --accept-loss", "%s does not have the roster yet, and so no records", own.Node)
	case !own.Majority:
		add("error", "no records can be written on this side of the network; writing resumes when the network is back", "%s reaches at most half of the %d members: either the node is cut off, or the other members are dead", own.Node, len(own.Members))
	}
	if n := len(own.Lost); n > 0 {
		add("error", "start the nodes that had the replicas again; if their disks are gone: filch roster recover --accept-loss", "%d of %d shards have lost all replicas", n, own.Shards)
	}
	if own.Short > 0 {
		add("warning", "no action needed: while enough nodes live, the instance makes new replicas within seconds", "%d of %d shards have fewer replicas than the live nodes allow, %d are being copied", own.Short, own.Shards, own.Learning)
	}
	gone, unseated := lostSeats(all)
	level, hint := "warning", "once that node counts as dead, another node takes the seat"
	if own.Known && rosterLost(all) {
		level, hint = "error", "without a majority of the seats, records cannot be moved away from dead nodes: start the nodes again; if their disks are gone or damaged: filch roster recover --accept-loss"
	}
	if n := len(gone); n > 0 {
		add(level, hint, "%d of %d seats of the roster do not answer: %s", n, len(own.Seats), spec.FormatHosts(gone))
	}
	if n := len(unseated); n > 0 {
		if level == "warning" {
			hint = "the disk of the node was damaged, or the node has just got the seat; another node takes the seat"
		}
		add(level, hint, "%d of %d seats of the roster have no record of their promises: %s", n, len(own.Seats), spec.FormatHosts(unseated))
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
				"warning", fmt.Sprintf("%s: the disk was too full for the output of %s", r.Node, filch.Plural(r.Disk.Cut, "task")),
				"the tasks themselves ran on; filch logs JOB and filch info JOB.TASK name the tasks; make room on the disk of FILCH_LOCAL",
			})
		}
	}
	for _, d := range disks {
		found = append(found, finding{
			"warning", fmt.Sprintf("%s: the disk has %s free of %s (%d %%)", spec.FormatHosts(on[d]), sizeText(free[d]), sizeText(d.size), d.percent),
			"make room on the disk of FILCH_LOCAL: on a full disk, output of tasks is cut, and no job can be recorded or started",
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
		hint := "make room on the disk of FILCH_LOCAL; the launcher keeps trying"
		if !strings.Contains(h.DiskTrouble, unix.ENOSPC.Error()) && !strings.Contains(h.DiskTrouble, unix.EDQUOT.Error()) {
			hint = "check the disk of FILCH_LOCAL and its permissions; the launcher keeps trying"
		}
		if full {
			hint = "set a larger FILCH_STORE_BYTES, then `filch down --here` and `filch up` there, one node after the other"
		}
		add("error", hint, "cannot write records to the disk: %s", h.DiskTrouble)
	}
	if h.Mirror != "" {
		add("error", "--once tasks start when the mirror is written; if the instance ends before that, filch up --resume may repeat finished tasks",
			"cannot write the mirror of the queue: %s; %s wait for the mirror", h.Mirror, filch.Plural(int(h.MirrorHeld), "task"))
	}
	if h.History != "" {
		add("warning", "make room in ~/.filch, or check its file system; the launcher keeps trying, and no job waits",
			"cannot write %s to the history: %s", filch.Plural(h.HistoryEnds, "ended job"), h.History)
	}
	switch s := time.Duration(h.SyncWait * float64(time.Second)); {
	case s <= slowSync, h.DiskTrouble != "": // the cause is told
	case h.SyncFault != "":
		add("warning", "make room on the disk of FILCH_LOCAL, or check the disk", "the disk took no records for %s: %s; now it does", filch.ShortTime(s), h.SyncFault)
	default:
		add("warning", "put FILCH_LOCAL on a disk of the node that is little used otherwise", "the disk is slow: writing a record took %s", filch.ShortTime(s))
	}
	if full {
		add("error", "the launcher drops the oldest jobs that have ended; if that is not enough, cancel jobs, or set FILCH_STORE_BYTES and start the launcher again",
			"records take %s of %s: the node accepts attached runs, and no other jobs", sizeText(h.LiveBytes), sizeText(h.QuotaBytes))
	}
	if h.SkippedBytes > 0 {
		add("warning", "other replicas, if there are any, still have the records; check the disk", "the launcher could not read %s of the records when it started", sizeText(h.SkippedBytes))
	}
	if j := time.Duration(h.ClockJump * float64(time.Second)); math.Abs(h.ClockJump) > clockStep.Seconds() {
		add("warning", "filch works, but times in ps and logs may be wrong", "the clock was set by %s while the launcher ran", filch.ShortTime(j.Abs()))
	}
	return found
}
