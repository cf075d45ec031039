package daemon

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/launcher/daemon/dashboard"
	"github.com/filch-hpc/filch/launcher/daemon/query"
	"github.com/filch-hpc/filch/launcher/wire"
)

// board is the dashboard, from the first order of a client until an order to stop or the end
// of the launcher. The channel has one token; the holder of the token reads and writes the
// other fields.
type board struct {
	d     *Daemon
	token chan struct{}

	server *dashboard.Server
	stop   context.CancelFunc
	done   chan struct{} // closed when the server has ended
}

func (b *board) begin(d *Daemon) { b.d, b.token = d, make(chan struct{}, 1) }

// order begins the dashboard unless it is served, or ends it.
func (b *board) order(stop bool) (wire.BoardInfo, error) {
	select {
	case b.token <- struct{}{}:
	case <-b.d.in.Context().Done():
		return wire.BoardInfo{}, b.d.in.GoingDown()
	}
	defer func() { <-b.token }()
	info := wire.BoardInfo{Was: b.server != nil}
	if info.Was {
		info.Browsers = b.server.Browsers()
	}
	switch {
	case stop && info.Was:
		b.stop()
		<-b.done
		b.server = nil
		b.d.in.Watch.Log().Info("the dashboard has ended", "node", string(b.d.in.Self))
	case !stop && !info.Was:
		if err := b.serve(); err != nil {
			return info, err
		}
	}
	if b.server != nil {
		info.URL, info.Port = b.server.URL(), b.server.Port()
	}
	return info, nil
}

// serve begins to serve.
func (b *board) serve() error {
	d := b.d
	if d.in.Context().Err() != nil {
		return d.in.GoingDown()
	}
	s, err := dashboard.Listen(dashboard.Config{Instance: d.cfg.Dir.Instance, Look: b.look, Rest: func() func(context.Context) { return query.Rest(d.queries) }, Command: b.command, Start: b.start})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(d.in.Context())
	done := make(chan struct{})
	b.server, b.stop, b.done = s, stop, done
	d.in.Watch.Log().Info("the dashboard is served", "node", string(d.in.Self), "port", s.Port())
	d.in.Go(func() {
		defer close(done)
		defer stop()
		if err := s.Serve(ctx); err != nil {
			d.in.Fault("the dashboard has ended", err)
		}
	})
	return nil
}

// look is what a screen of filch top gets, and whether nothing happens.
func (b *board) look() (view func(rests bool) ([]byte, error), quiet bool, err error) {
	v, err := b.d.queries.Answer(wire.Query{Verb: wire.VerbGlance}, true)
	if err != nil {
		return nil, false, err
	}
	o, ok := v.(*wire.Overview)
	return func(rests bool) ([]byte, error) {
		if rests {
			o.Rest = query.RestMost.Seconds()
		}
		return json.Marshal(v)
	}, ok && query.Resting(o), nil
}

// start starts a command, with the priority of keepers: the launcher's may be higher.
func (b *board) start(cmd *exec.Cmd) (ended func(), err error) {
	if ended, err = b.d.keepers.Other(cmd); err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, cmd.Process.Pid, b.d.cfg.Nice)
	}
	return ended, err
}

// command makes a command of filch that asks this launcher. The environment is the
// launcher's, with the place of the launcher's state; variables of an allocation or of a job
// would choose another instance.
func (b *board) command(ctx context.Context, args ...string) *exec.Cmd {
	dir := b.d.cfg.Dir
	cmd := exec.CommandContext(ctx, b.d.cfg.Keeper, append([]string{"--instance", dir.Instance, "--node", dir.Node}, args...)...)
	if args[0] == "history" { // of all instances
		cmd.Args = append(cmd.Args[:1], args...)
	}
	cmd.Dir = "/"
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "FILCH_") && !strings.HasPrefix(name, "SLURM_") || name == "FILCH_HOME" {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "FILCH_LOCAL="+filepath.Dir(dir.Base), "NO_COLOR=1", "COLUMNS=120")
	return cmd
}
