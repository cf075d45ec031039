package bringup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/spec"
)

// restart starts the dead launchers of this machine, and those that were stopped alone,
// from their node.json, and waits until all are members again.
func (b *localNodes) restart(dead, stopped, alive []place.Dir) error {
	lost, err := b.readLost(dead)
	if err != nil {
		return err
	}
	for _, d := range stopped {
		m, err := place.ReadNode(d.StoppedFile())
		if err != nil {
			return err
		}
		if err := d.TakeBack(); err != nil {
			return filch.Errorf(filch.Internal, "cannot bring back the kept output of %s: %s", d.Node, ui.Cause(err))
		}
		lost = append(lost, m)
	}
	if err := b.prepare(len(lost) + len(alive)); err != nil {
		return err
	}
	b.nodes = append(b.nodes, alive...)
	for i := range lost {
		lost[i].Keeper = b.keeper
		b.nodes = append(b.nodes, lost[i].Dir)
	}
	if len(b.nodes) == 0 {
		return filch.Errorf(filch.NotFound, "nothing is left of %s on this machine", b.instance).WithHint("try again: filch up")
	}
	b.members = lost
	var seeds []string
	for i := range lost {
		if i > 0 || len(alive) > 0 {
			if seeds, err = b.livingAddrs(); err != nil {
				return err
			}
		}
		if err := b.startAndWait(i, seeds); err != nil {
			return err
		}
	}
	if err := b.gathered(len(b.nodes)); err != nil {
		return err
	}
	var began []place.Dir
	for i := range lost {
		began = append(began, lost[i].Dir)
		_ = os.Remove(lost[i].Dir.StoppedFile())
	}
	fmt.Printf("%s is complete again: %s started (%s), %d still ran\n", b.instance, filch.Plural(len(b.procs), "launcher"), listNodes(began), len(alive))
	return nil
}

// listNodes lists the nodes of launchers of this machine: n[2-4].
func listNodes(dirs []place.Dir) string {
	var names []filch.NodeName
	for _, d := range dirs {
		names = append(names, filch.NodeName(d.Node))
	}
	return spec.FormatHosts(names)
}

// readLost reads the node.json of the dead launchers. A directory without a
// node.json never was a launcher, and is removed.
func (b *localNodes) readLost(dead []place.Dir) ([]place.Node, error) {
	var lost []place.Node
	for _, d := range dead {
		if err := released(d); err != nil {
			return nil, err
		}
		m, err := place.ReadNode(d.NodeFile())
		var e *filch.Error
		switch {
		case err == nil:
			lost = append(lost, m)
		case errors.Is(err, fs.ErrNotExist) || errors.As(err, &e) && e.Kind == filch.NotFound:
			_ = d.Remove()
		default:
			return nil, err
		}
	}
	return lost, nil
}

// livingAddrs are the addresses of the members that are up, according to the
// first launcher of b.nodes.
func (b *localNodes) livingAddrs() ([]string, error) {
	list, err := nodesOf(b.nodes[0])
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, n := range list {
		if n.State == "up" || n.State == "draining" {
			addrs = append(addrs, n.Addrs...)
		}
	}
	return addrs, nil
}

// released waits until no process holds the state directory of a launcher that
// does not answer.
func released(d place.Dir) error {
	for deadline := time.Now().Add(cli.QueryWait); ; time.Sleep(cli.PollPause) {
		pid, held := lockHolder(d)
		if !held {
			return nil
		}
		if time.Now().After(deadline) {
			return filch.Errorf(filch.Busy, "the launcher %s (pid %d) neither answers nor ends", d.Node, pid).
				WithHint("kill -9 %d, then try again", pid)
		}
	}
}
