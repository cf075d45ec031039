package bringup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/history"
	"github.com/filch-hpc/filch/launcher/wire"
)

// downWait is how long launchers may take to end their jobs and themselves;
// downWait is longer than the usual kill-wait.
const downWait = 25 * time.Second

func DownCommand(g *cli.Global) *cobra.Command {
	here, drained := false, false
	c := &cobra.Command{
		Use:     "down [OPTIONS] [NODE...]",
		GroupID: "nodes",
		Short:   "stop the instance, or some of its nodes",
		Long: `Ends the jobs of the instance, stops the launchers on all machines, and removes their
files. With --here, only the launchers of this machine stop: other launchers go on,
and so do detached jobs without ranks on this machine.

With NODE, only the launchers of these nodes stop, on any machine. Jobs with ranks
there end, tasks from there start again on other nodes, and the records move to other
nodes. What tasks there printed cannot be read until filch up starts the launcher again;
of a node on another machine, the output is removed. With --drain, each node drains first,
and stops when nothing runs there.`,
		Args:    cobra.ArbitraryArgs,
		Example: "  filch down\n  filch down --here\n  filch down n3\n  filch down --drain 'n[3-5]'",
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case here && len(args) > 0:
				return ui.Misused(filch.Errorf(filch.Invalid, "--here and NODE exclude each other"))
			case drained && len(args) == 0:
				return ui.Misused(filch.Errorf(filch.Invalid, "--drain is for single nodes").WithHint("filch down --drain NODE"))
			case len(args) > 0:
				return downNodes(g, args, drained)
			}
			return down(g, here)
		},
	}
	c.Flags().BoolVar(&here, "here", false, "stop only the launchers of this machine")
	c.Flags().BoolVar(&drained, "drain", false, "drain NODE first: stop the launcher when nothing runs there")
	return c
}

func down(g *cli.Global, here bool) error {
	base, err := place.Base()
	if err != nil {
		return err
	}
	name, err := instanceToStop(base, g)
	if err != nil {
		return err
	}
	dirs := place.Nodes(base, name)
	began, uuid := time.Now(), instanceUUID(dirs)
	stopped, elsewhere := 0, 0
	for _, d := range dirs {
		if answers(d) {
			stopped++
		}
	}
	if !here {
		if elsewhere, err = downElsewhere(dirs); err != nil {
			ui.Warn(err.Error())
		}
	}
	for _, d := range dirs {
		scope := wire.DownAll
		if here {
			scope = wire.DownNode
		}
		if err := askDown(d, scope); err != nil {
			if pid, held := lockHolder(d); refused(err) && held && pid > 0 {
				ui.Warn(fmt.Sprintf("the launcher %s takes no commands of this filch, and gets TERM: its jobs end without a grace period", d.Node))
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
		}
	}
	speak := time.AfterFunc(cli.SpeakLate, func() { ui.Say("waiting for the jobs to end: their processes got TERM, and get KILL 10 s later") })
	defer speak.Stop()
	deadline := time.Now().Add(downWait)
	for _, d := range dirs {
		if err := awaitEnd(d, deadline); err != nil {
			return err
		}
		if err := d.Remove(); err != nil {
			ui.Warn("cannot remove " + d.Path() + ": " + err.Error())
		}
	}
	if here {
		_ = os.RemoveAll(filepath.Join(base, name))
	} else {
		removeInstance(base, name)
	}
	sayCancelled(uuid, began)
	fmt.Printf("%s is down: %s stopped\n", ui.Clean(name), filch.Plural(stopped+elsewhere, "launcher"))
	return nil
}

// instanceUUID reads the uuid of the instance of some launchers, "" if none has one.
func instanceUUID(dirs []place.Dir) string {
	for _, d := range dirs {
		if m, err := place.ReadNode(d.NodeFile()); err == nil {
			return m.UUID
		}
	}
	return ""
}

// sayCancelled tells which runs and tasks ended with the instance. The launchers leave these jobs
// in the history, except those that a mirror keeps.
func sayCancelled(uuid string, began time.Time) {
	dir, err := place.History()
	if err != nil || uuid == "" {
		return
	}
	list, _, err := history.Read(dir, began.UnixNano(), func(e *history.Entry) bool {
		return e.UUID == uuid && e.Job.Parent == 0 && (e.Job.Unfinished != nil || e.Job.State == filch.Cancelled.String())
	})
	if text := endedWith(list); err == nil && text != "" {
		ui.Say("ended with the instance: " + text + "; filch history --all lists the jobs")
	}
}

// endedWith counts runs, and tasks that had not ended.
func endedWith(list []history.Entry) string {
	runs, jobs, tasks := 0, 0, 0
	for i := range list {
		if left := list[i].Job.Unfinished; left != nil {
			jobs, tasks = jobs+1, tasks+int(*left)
		} else {
			runs++
		}
	}
	var parts []string
	if runs > 0 {
		parts = append(parts, filch.Plural(runs, "run"))
	}
	if jobs > 0 {
		parts = append(parts, filch.Plural(tasks, "task")+" of "+filch.Plural(jobs, "job"))
	}
	return strings.Join(parts, ", and ")
}

// askDown asks a launcher to end: alone, or with all of its instance.
func askDown(d place.Dir, scope string) error {
	c, err := client.DialDir(d, cli.Build)
	if err != nil {
		return err
	}
	defer c.Close()
	return cli.Ask(c, cli.QueryWait, nil, wire.VerbDown, "", "", scope)
}

// instanceToStop is the instance to stop, with live launchers or without.
func instanceToStop(base string, g *cli.Global) (string, error) {
	name := g.Instance
	if name == "" {
		name = os.Getenv("FILCH_INSTANCE")
	}
	if name == "" {
		if own := place.AllocationName(os.Getenv); own != "" && len(place.Nodes(base, own)) > 0 {
			name = own
		}
	}
	if name != "" {
		if err := place.CheckInstance(name); err != nil {
			return "", err
		}
	}
	all := InstancesHere(base)
	switch {
	case name != "" && len(place.Nodes(base, name)) == 0:
		return "", noneNamed(name, all)
	case name != "":
		return name, nil
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0:
		return "", filch.Errorf(filch.NotFound, "nothing to stop: no instance is on this machine")
	}
	return "", filch.Errorf(filch.Invalid, "%d instances are on this machine: %s", len(all), strings.Join(all, ", ")).
		WithHint("choose one with --instance NAME")
}

// noneNamed is the error for an instance that is not on this machine, where others are.
func noneNamed(name string, others []string) error {
	if len(others) == 0 {
		return filch.Errorf(filch.NotFound, "nothing to stop: no instance is on this machine, neither %s nor another", name)
	}
	return filch.Errorf(filch.NotFound, "nothing to stop: instance %s is not on this machine", name).WithHint("on this machine: %s", strings.Join(others, ", "))
}

// downElsewhere asks a launcher here to stop the launchers of other machines, and
// returns their number.
func downElsewhere(dirs []place.Dir) (int, error) {
	here := map[filch.NodeName]bool{}
	for _, d := range dirs {
		here[filch.NodeName(d.Node)] = true
	}
	for _, d := range dirs {
		c, err := client.DialDir(d, cli.Build)
		if err != nil {
			continue
		}
		defer c.Close()
		list, err := cli.QueryNodes(c)
		if err != nil {
			return 0, err
		}
		others := 0
		for _, n := range list {
			if !here[n.Node] && (n.State == "up" || n.State == "draining") {
				others++
			}
		}
		return others, cli.Ask(c, cli.QueryWait, nil, wire.VerbDown, "all")
	}
	return 0, nil
}

// awaitEnd waits until the launcher of d has released its lock, and kills the
// launcher at the deadline.
func awaitEnd(d place.Dir, deadline time.Time) error {
	for {
		pid, held := lockHolder(d)
		if !held {
			return nil
		}
		if time.Now().After(deadline) {
			if pid <= 0 {
				return filch.Errorf(filch.Timeout, "the launcher %s does not end", d.Node)
			}
			ui.Warn(fmt.Sprintf("the launcher %s (pid %d) does not end and is killed", d.Node, pid))
			_ = syscall.Kill(pid, syscall.SIGKILL)
			deadline = time.Now().Add(cli.QueryWait)
		}
		time.Sleep(cli.PollPause)
	}
}

// lockHolder reports whether a launcher holds the state directory, and the pid
// from the launcher's pid file.
func lockHolder(d place.Dir) (pid int, held bool) {
	f, err := os.Open(d.PIDFile())
	if err != nil {
		return 0, !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return 0, false
	}
	b := make([]byte, 32)
	n, _ := f.Read(b)
	pid, _ = strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid, errors.Is(err, unix.EWOULDBLOCK)
}
