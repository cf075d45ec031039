package batch

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/pools"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/pool"
)

const (
	// stayEvery is the time between two looks of an allocation at the record.
	stayEvery = time.Second
	// drainEvery is the same while its nodes drain: each moment costs.
	drainEvery = 200 * time.Millisecond
	// stayLost bounds how long an allocation goes on whose launcher does not answer, or
	// that the record does not name.
	stayLost = 30 * time.Second
)

// stayCommand is filch pool stay, the command of an allocation's batch script.
func stayCommand(g *cli.Global) *cobra.Command {
	record := ""
	c := &cobra.Command{
		Use: "stay POOL N", Hidden: true, Args: cobra.ExactArgs(2), Short: "keep an allocation of a pool until the pool gives it back",
		RunE: func(_ *cobra.Command, args []string) error {
			n, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return ui.Misused(filch.Errorf(filch.Invalid, "%.40q is not the number of an allocation", args[1]))
			}
			return stay(g, args[0], n, record)
		},
	}
	c.Flags().StringVar(&record, "record", "", "define the pool of the record in `FILE` first")
	return c
}

func stay(g *cli.Global, name string, n int64, record string) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	defer func() { c.Close() }()
	if record != "" {
		if err := restore(c, record); err != nil {
			return err
		}
	}
	group := ""
	good := time.Now()
	for pause := stayEvery; ; time.Sleep(pause) {
		why, ends, err := "", false, error(nil)
		if group == "" {
			group, err = announce(c, name, n)
		}
		if err == nil {
			why, ends, err = over(c, name, n, group)
		}
		if pause = stayEvery; ends {
			pause = drainEvery
		}
		switch {
		case err == nil && why != "":
			ui.Say(fmt.Sprintf("allocation %d of the pool %s ends: %s", n, name, why))
			return nil
		case err == nil:
			good = time.Now()
		case time.Since(good) >= stayLost:
			return err
		case c.Lost():
			if again, e := g.Dial(); e == nil {
				c.Close()
				c = again
			}
		}
	}
}

// announce writes into the record how the nodes of the allocation are called.
func announce(c *client.Client, name string, n int64) (group string, err error) {
	var o wire.Overview
	if err := cli.Ask(c, askWait, &o, wire.VerbGlance); err != nil {
		return "", err
	}
	for i := range o.Nodes {
		if o.Nodes[i].Local {
			group = o.Nodes[i].Alloc
		}
	}
	if group == "" {
		return "", filch.Errorf(filch.Unavailable, "the local launcher does not say of which allocation it is")
	}
	_, err = pools.Change(c, name, func(p *pool.Pool) error {
		if !p.Announce(n, group) {
			return noAllocation(name, n)
		}
		return nil
	})
	return group, err
}

// over returns why the allocation is over; "" while it goes on, and while its nodes drain, which
// ends tells.
func over(c *client.Client, name string, n int64, group string) (why string, ends bool, err error) {
	p, _, err := pools.Read(c, name)
	if err != nil {
		return "", false, err
	}
	if p == nil {
		return "", false, noAllocation(name, n)
	}
	why, ends, known, err := p.Stay(n, group, func() ([]pool.Node, error) {
		var o wire.Overview
		err := cli.Ask(c, askWait, &o, wire.VerbGlance)
		return pools.View(&o, time.Now().UnixNano()).Nodes, err
	})
	if !known {
		err = noAllocation(name, n)
	}
	return why, ends, err
}

func noAllocation(name string, n int64) error {
	return filch.Errorf(filch.NotFound, "the pool %s has no allocation %d", name, n)
}
