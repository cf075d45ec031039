package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon"
	"github.com/filch-hpc/filch/launcher/pools"
)

// Times of a launcher that looks for pools.
const (
	poolsAgain = 3 * time.Second // after a look without an answer
	// keepAgain is the pause before the process that holds pools is started again.
	keepAgain = 5 * time.Second
)

// keepPools starts the process that holds the pools of the instance, while there are pools,
// and tells the launcher d whether there are: then a run that does not fit may wait for
// nodes. Without pools, keepPools waits until a record of pools changes. History is the folder
// for what pools cost, "" for none.
func keepPools(ctx context.Context, dir place.Dir, filch, build, history string, log *slog.Logger, d *daemon.Daemon) {
	for have := false; ctx.Err() == nil; {
		now, seen, err := havePools(dir, build)
		if err == nil && now != have {
			have = now
			d.Grows(have)
		}
		pause := poolsAgain
		switch {
		case have:
			err := keep(ctx, dir, filch, history, log)
			if ctx.Err() != nil {
				return
			}
			log.Warn("the process that holds the pools has ended", "err", err)
			pause = keepAgain
		case err == nil:
			d.AwaitChange(ctx, seen)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// havePools asks the store whether there are pools. Seen are the versions of the records
// that say so.
func havePools(dir place.Dir, build string) (have bool, seen map[dht.Key]dht.Version, err error) {
	c, err := client.Await(dir, build)
	if err != nil {
		return false, nil, err
	}
	defer c.Close()
	names, v, err := pools.List(c)
	if err != nil {
		return false, nil, err
	}
	seen = map[dht.Key]dht.Version{pools.NamesKey(): v}
	for _, name := range names {
		p, v, err := pools.Read(c, name)
		if err != nil && v == (dht.Version{}) {
			return false, nil, err
		}
		seen[pools.Key(name)] = v
		if p != nil && !p.Gone() { // nil, too: a record of a newer filch
			have = true
		}
	}
	return have, seen, nil
}

// keep runs filch pool keep until it ends, and writes what it prints to the log.
func keep(ctx context.Context, dir place.Dir, filch, history string, log *slog.Logger) error {
	p := exec.CommandContext(ctx, filch, "pool", "keep", "--history="+history, dir.Base, dir.Instance, dir.Node)
	r, w := io.Pipe()
	p.Stderr, p.WaitDelay = w, time.Second
	p.Cancel = func() error { return p.Process.Signal(unix.SIGTERM) } // the process writes the history
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
