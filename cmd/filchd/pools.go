package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/pool"
)

// Times of a launcher that looks for pools.
const (
	// poolsEvery is the time between two looks: a pool works this long after filch pool add.
	poolsEvery = 3 * time.Second
	poolsWait  = 10 * time.Second
	// keepAgain is the pause before the process that holds pools is started again.
	keepAgain = 5 * time.Second
)

// keepPools starts the process that holds the pools of the instance, while there are pools.
// grows is told whether there are: then a run that does not fit may wait for nodes.
func keepPools(ctx context.Context, dir place.Dir, filch, build string, log *slog.Logger, grows func(bool)) {
	for have := false; ; {
		if now := havePools(dir, build, have); now != have {
			have = now
			grows(have)
		}
		pause := poolsEvery
		if have {
			err := keep(ctx, dir, filch, log)
			if ctx.Err() == nil {
				log.Warn("the process that holds the pools has ended", "err", err)
			}
			pause = keepAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// havePools asks the store. Without an answer, it is as it was.
func havePools(dir place.Dir, build string, was bool) bool {
	c, err := client.Await(dir, build)
	if err != nil {
		return was
	}
	defer c.Close()
	rs, err := c.Store(poolsWait, dht.Op{Code: dht.OpLookup, Key: pool.NamesKey})
	if err != nil || rs[0].Outcome != dht.Done && rs[0].Outcome != dht.Absent {
		return was
	}
	if rs[0].Outcome == dht.Absent {
		return false
	}
	names, err := dht.DecodeList(rs[0].Value)
	if err != nil {
		return was
	}
	for _, name := range names {
		rs, err := c.Store(poolsWait, dht.Op{Code: dht.OpLookup, Key: dht.Key(pool.Key(string(name)))})
		if err != nil || rs[0].Outcome != dht.Done {
			continue
		}
		if p, err := pool.Decode(rs[0].Value); err == nil && (!p.Removed || len(p.Allocs) > 0) {
			return true
		}
	}
	return false
}

// keep runs filch pool keep until it ends, and writes what it prints to the log.
func keep(ctx context.Context, dir place.Dir, filch string, log *slog.Logger) error {
	p := exec.CommandContext(ctx, filch, "pool", "keep", dir.Base, dir.Instance, dir.Node)
	r, w := io.Pipe()
	p.Stderr, p.WaitDelay = w, time.Second
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			log.Info(lines.Text())
		}
		_, _ = io.Copy(io.Discard, r)
	}()
	err := p.Run()
	_ = w.Close()
	return err
}
