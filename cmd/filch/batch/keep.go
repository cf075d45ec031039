package batch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/pools"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/pool"
)

const (
	// followEvery is the time between two looks at a pool that another node holds.
	followEvery = 2 * time.Second
	// askWait bounds a question to the launcher.
	askWait = 5 * time.Second
	// orderWait bounds filch drain and filch invite.
	orderWait = 20 * time.Second
	// emptyMost is how long a keep process without pools goes on.
	emptyMost = time.Minute
)

// keepCommand is filch pool keep, which the launcher starts.
func keepCommand() *cobra.Command {
	history := ""
	c := &cobra.Command{
		Use: "keep BASE INSTANCE NODE", Hidden: true, Args: cobra.ExactArgs(3), Short: "hold the pools of an instance",
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			dir := place.Dir{Base: args[0], Instance: args[1], Node: args[2]}
			c, err := client.Await(dir, cli.Build)
			if err != nil {
				return err
			}
			defer c.Close()
			self, err := os.Executable()
			if err != nil {
				return err
			}
			node, err := place.ReadNode(dir.NodeFile())
			if err != nil {
				return err
			}
			k := &holder{c: c, dir: dir, self: self, history: history, uuid: node.UUID, pools: map[string]*held{}}
			return k.run(ctx)
		},
	}
	c.Flags().StringVar(&history, "history", "", "write what pools cost into `FOLDER`")
	return c
}

// holder follows the pools of an instance for one node.
type holder struct {
	c       *client.Client
	dir     place.Dir
	self    string // the filch program
	uuid    string // of the instance
	history string // the folder of the history; "": none is kept
	pools   map[string]*held
}

// held is the node's part in one pool.
type held struct {
	m    *pool.Manager
	next time.Time
	said string     // the last line of the log
	past time.Time  // the last write into the history
	last *pool.Pool // in the last look; nil: this node does not hold the pool
	// What the file beside the queue has, in short.
	mirrored string
}

func (k *holder) run(ctx context.Context) error {
	tick := time.NewTicker(pool.LookEvery / 4)
	defer tick.Stop()
	var listed time.Time
	seen := time.Now()
	for {
		if time.Since(listed) >= followEvery {
			listed = time.Now()
			all, _, err := pools.List(k.c)
			if err != nil && k.c.Lost() {
				return err // the launcher has ended, and its next one starts another process
			}
			for _, name := range all {
				if k.pools[name] == nil && len(k.pools) < pool.MostPools {
					k.pools[name] = &held{m: pool.NewManager(filch.NodeName(k.dir.Node), k.dir.Instance)}
				}
			}
		}
		for name, h := range k.pools { // any order: pools are independent
			if time.Now().Before(h.next) {
				continue
			}
			h.next = time.Now().Add(pool.LookEvery)
			there, err := k.look(ctx, name, h)
			if err != nil {
				if k.c.Lost() {
					return err
				}
				h.log("pool %s: %v", name, err)
			}
			if there {
				seen = time.Now()
			}
		}
		if time.Since(seen) >= emptyMost {
			return nil
		}
		select {
		case <-ctx.Done():
			for _, h := range k.pools { // any order
				if h.last != nil {
					_ = k.keepPast(h.last, h) // the launcher ends
				}
			}
			return nil
		case <-tick.C:
		}
	}
}

// log writes to the launcher's log; the same line is written once.
func (h *held) log(form string, args ...any) {
	if line := fmt.Sprintf(form, args...); line != h.said {
		h.said = line
		ui.Say(line)
	}
}

// look is one look at a pool; there tells whether the pool exists.
func (k *holder) look(ctx context.Context, name string, h *held) (there bool, err error) {
	p, was, err := pools.Read(k.c, name)
	if err != nil || p == nil {
		return false, err
	}
	h.last = nil
	if p.Gone() {
		return false, nil
	}
	sys := systems[p.System](&p.Spec)
	if none := missing(sys); len(none) > 0 {
		h.next = time.Now().Add(followEvery)
		h.log("pool %s: this node does not hold the pool: it has no %s", name, strings.Join(none, ", "))
		return true, nil
	}
	if !h.m.Holds(time.Now(), p) {
		h.next = time.Now().Add(followEvery)
		return true, nil
	}
	v, err := k.view(p)
	if err != nil {
		return true, err
	}
	if h.m.AsksBatch(time.Now(), p) {
		within, cancel := context.WithTimeout(ctx, lookWait)
		if v.Batch, err = sys.look(within); err != nil {
			v.Batch = &pool.Batch{Err: err.Error()}
		}
		cancel()
	}
	if !h.m.Look(time.Now(), p, v) {
		h.last = p
		return true, nil
	}
	ok, err := pools.Write(k.c, p, was)
	orders := h.m.Stored(err == nil && ok)
	if err != nil || !ok {
		return true, err
	}
	if h.last = p; p.Gone() || time.Since(h.past) >= pastEvery {
		if err := k.keepPast(p, h); err != nil {
			h.log("pool %s: the history has not what the pool cost: %v", name, err)
		}
	}
	// Before the orders: an instance that goes on with the queue must know of each submission.
	if err := k.mirrorPool(p, h); err != nil {
		h.log("pool %s: cannot write its record beside the queue of tasks: %v", name, err)
	}
	k.drain(ctx, p, h, orders)
	for _, o := range orders {
		k.carryOut(ctx, p, sys, h, o)
	}
	return true, nil
}

// view asks the launcher what the instance looks like.
func (k *holder) view(p *pool.Pool) (*pool.View, error) {
	var o wire.Overview
	if err := cli.Ask(k.c, askWait, &o, wire.VerbGlance); err != nil {
		return nil, err
	}
	return pools.View(&o, time.Now().UnixNano()), nil
}

// carryOut does what the pool orders.
func (k *holder) carryOut(ctx context.Context, p *pool.Pool, sys system, h *held, o pool.Order) {
	switch o.Kind {
	case pool.Submit:
		within, cancel := context.WithDeadline(ctx, o.By)
		defer cancel()
		if within.Err() != nil {
			h.log("pool %s: allocation %d was not submitted: the submissions before it took too long", p.Name, o.N)
			return
		}
		id, err := k.submit(within, p, sys, o.N)
		switch {
		case err == nil:
			h.log("pool %s: allocation %d is job %s; %s", p.Name, o.N, id, p.Said)
			h.m.Told(pool.Told{N: o.N, Job: id})
		case within.Err() != nil: // the batch system may have taken it
			h.log("pool %s: the submission of allocation %d had no answer: %v", p.Name, o.N, err)
		default:
			h.log("pool %s: allocation %d was refused: %v", p.Name, o.N, err)
			h.m.Told(pool.Told{N: o.N, Err: err.Error()})
		}
	case pool.Cancel:
		within, cancel := context.WithTimeout(ctx, cancelWait)
		defer cancel()
		h.log("pool %s: cancels job %s of allocation %d", p.Name, o.Job, o.N)
		if err := sys.cancel(within, o.Job); err != nil {
			h.log("pool %s: cannot cancel job %s: %v", p.Name, o.Job, err)
		}
	case pool.Drain: // see drain
	}
}

// drain drains the nodes of all allocations that are given back at once: their batch jobs end
// when nothing runs there.
func (k *holder) drain(ctx context.Context, p *pool.Pool, h *held, orders []pool.Order) {
	var nodes []string
	for _, o := range orders {
		if o.Kind == pool.Drain {
			h.log("pool %s: gives allocation %d (job %s) back: it has no work", p.Name, o.N, o.Job)
			nodes = append(nodes, o.Nodes...)
		}
	}
	if len(nodes) == 0 {
		return
	}
	if err := k.filch(ctx, append([]string{"drain", "-m", "pool " + p.Name + " gives the node back"}, nodes...)...); err != nil {
		h.log("pool %s: cannot drain %s: %v", p.Name, strings.Join(nodes, " "), err)
	}
}

// filch runs a filch command on this instance.
func (k *holder) filch(ctx context.Context, args ...string) error {
	within, cancel := context.WithTimeout(ctx, orderWait)
	defer cancel()
	p := exec.CommandContext(within, k.self, append([]string{"--instance", k.dir.Instance}, args...)...)
	said := &limited{most: 4096}
	p.Stderr = said
	if err := p.Run(); err != nil {
		why, _, _ := strings.Cut(strings.TrimPrefix(said.String(), "filch: error: "), "\n")
		if why == "" {
			why = err.Error()
		}
		return fmt.Errorf("filch %s: %s", args[0], why)
	}
	return nil
}

// submit submits the batch script of an allocation. The script reads an invitation from the
// home of the instance, which all nodes of the batch system see; the invitation is written
// anew for each, since nodes come and go.
func (k *holder) submit(ctx context.Context, p *pool.Pool, sys system, n int64) (string, error) {
	home, err := place.HomeOf(k.dir.Instance)
	if err == nil {
		err = home.Make()
	}
	if err != nil {
		return "", err
	}
	invitation := invitationPath(home, p.Name)
	if err := k.filch(ctx, "invite", "-o", invitation); err != nil {
		return "", err
	}
	args := p.Args
	if p.System == "slurm" {
		args = append([]string{"--output=" + filepath.Join(string(home), "pool-"+p.Name+"-%j.log")}, args...)
	}
	return sys.submit(ctx, pool.JobName(k.dir.Instance, p.Name, n), script(p.Program, invitation, p, n), args)
}

// script is the batch script of an allocation.
func script(self, invitation string, p *pool.Pool, n int64) string {
	return "#!/bin/sh\n# An allocation of the pool " + p.Name + " of filch, submitted by the instance itself.\n" +
		"exec " + cli.ShellWord(self) + " pool begin " + cli.ShellWord(p.Name) + " " + strconv.FormatInt(n, 10) + " " + cli.ShellWord(invitation) + "\n"
}
