package runclient

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/bcast"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/deps"
	"github.com/filch-hpc/filch/cmd/filch/licenses"
	"github.com/filch-hpc/filch/cmd/filch/onend"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// CheckDetached refuses options that need a client in a run without a client.
func CheckDetached(r *spec.Run) error {
	if !r.Request.Detach {
		return nil
	}
	for _, v := range [...]struct{ option, value string }{{"output", r.Client.Stdout}, {"error", r.Client.Stderr}} {
		if v.value != "" && v.value != "all" && v.value != launcher.NoFile && !ui.AllDigits(v.value) && output.SideOf(v.value) == output.SideClient {
			return filch.Errorf(filch.Invalid, "--%s=%s names a file that the client writes, and --detach has no client", v.option, v.value).
				WithHint("put %%t, %%n or %%N into the name, so that the nodes write the file; or use filch logs JOB")
		}
	}
	if in := r.Client.Stdin; in == "" || in == "all" {
		r.Order.IO.StdinMode = launcher.StdinNone
	} else if r.Order.IO.StdinMode != launcher.StdinNone && r.Order.IO.StdinMode != launcher.StdinFile {
		return filch.Errorf(filch.Invalid, "--input=%s names a file that the client reads, and --detach has no client", in).
			WithHint("put %%t, %%n or %%N into the name, so that the nodes read the file; or redirect in the command: sh -c './a < file'")
	}
	return nil
}

// Launch submits the run and stays with it.
func Launch(r *spec.Run, around spec.Context) int {
	r.Order.Umask, r.Order.Rlimits = cli.ProcessLimits()
	r.Order.Rlimits = r.Client.Limits.Of(r.Order.Rlimits)
	s := &Session{Spec: r, cwd: around.Cwd}
	in, err := s.files()
	if err != nil {
		return ui.Refuse(err)
	}
	if r.Client.Pty {
		w := ui.TerminalSize()
		r.Order.Pty = &w
	}
	if r.Client.Hold {
		r.Request.HeldBy = cli.Person()
	}
	if r.Request.Order, err = wire.Marshal(&r.Order); err != nil {
		return ui.Fail(err)
	}
	if n := len(r.Request.Order); n > launcher.MaxOrderBytes {
		return ui.Fail(filch.Errorf(filch.Invalid, "the command and its environment have %d bytes, %d at most", n, launcher.MaxOrderBytes).
			WithHint("pass less with --export"))
	}
	c, err := client.Dial(client.Options{Instance: r.Client.Instance, Build: cli.Build})
	if err != nil && Dialect.Absent != nil && cli.IsUnreached(err) {
		return Dialect.Absent(err)
	}
	if err != nil {
		return ui.Refuse(err)
	}
	if err := cli.FitWalltime(r, c.Dir); err != nil {
		if ui.KindOf(err) == filch.Invalid {
			return ui.Usage(err)
		}
		return ui.Fail(err)
	}
	if s := &r.Request.Shape; s.PerRank.Named != "" {
		if s.PerRank.Named, r.Request.License, err = licenses.Split(c, s.PerRank.Named, max(s.Ranks, 1)); err != nil {
			return ui.Refuse(err)
		}
	}
	if c.Dir.Instance != os.Getenv("FILCH_INSTANCE") {
		r.Request.Parent, r.Request.Task, r.Request.Inside = 0, 0, launcher.Inside{} // FILCH_JOB is a job of another instance
	}
	if err := waits(r, c); err != nil {
		return ui.Refuse(err)
	}
	if r.Client.OnEnd != "" && r.Request.Parent != 0 {
		return ui.Usage(filch.Errorf(filch.Invalid, "--on-end is for jobs, and this is a step of job %d", r.Request.Parent).
			WithHint("--new-job starts a job of its own"))
	}
	withdraw := func() {}
	if r.Client.Bcast != "" {
		if r.Request.Copy, withdraw, err = bcast.Once(r.Argv[0], r.Client.Bcast, around.Cwd, c.Dir); err != nil {
			return ui.Refuse(err)
		}
	}
	s.dir = c.Dir
	if s.run, err = c.Submit(&r.Request); err != nil {
		withdraw() // after Submit the launcher removes the archive
		return ui.Fail(err)
	}
	if r.Request.Detach {
		return s.detached()
	}
	s.pump = newPump(s.run, in)
	s.interactive()
	code := s.loop()
	s.restore()
	return code
}

// waits fills in the jobs that the run waits for.
func waits(r *spec.Run, c *client.Client) error {
	q := &r.Request
	if err := deps.Resolve(c, &r.Client.Deps, q.Name, &q.Before); err != nil {
		return err
	}
	if around := q.Inside.Job; around != 0 && q.Parent == 0 && !q.Detach && slices.Contains(q.Before.After, around) {
		return filch.Errorf(filch.Invalid, "cannot wait for job %d inside the job: it would wait for itself", around).
			WithHint("with --detach the command leaves, and the run begins later")
	}
	return nil
}

// files opens the ranks' standard input, and refuses files for output that cannot be written.
func (s *Session) files() (*os.File, error) {
	in, err := s.openStdin()
	if err == nil {
		err = checkOutput(s.Spec, s.cwd)
	}
	return in, err
}

// openStdin opens the ranks' standard input: our own standard input, or the file
// of -i. A null device is left to the nodes.
func (s *Session) openStdin() (*os.File, error) {
	io := &s.Spec.Order.IO
	if io.StdinMode != launcher.StdinAll {
		return os.Stdin, nil
	}
	if in := s.Spec.Client.Stdin; in != "" && in != "all" {
		f, err := os.Open(in)
		if err != nil {
			return nil, filch.Errorf(filch.Invalid, "cannot open the input file %s: %s", ui.Clean(in), ui.Cause(err))
		}
		return f, nil
	}
	if ui.IsNull(os.Stdin) {
		io.StdinMode = launcher.StdinNone
	}
	return os.Stdin, nil
}

// detached waits until the job exists, prints its number and leaves.
func (s *Session) detached() int {
	for {
		event, err := s.run.Next()
		if err != nil {
			return ui.Fail(err)
		}
		switch e := event.(type) {
		case launcher.Accepted:
			onend.Submit(s.run.Another, e.Job, s.Spec.Client.OnEnd)
			if s.Spec.Client.JSON {
				b, _ := json.Marshal(struct {
					ID   filch.JobID `json:"id"`
					Name string      `json:"name"`
				}{e.Job, s.Spec.Request.Name})
				_, _ = os.Stdout.Write(append(b, '\n'))
			} else {
				_, _ = os.Stdout.WriteString(e.Job.String() + "\n")
			}
			s.run.Close()
			return 0
		case launcher.Refused:
			ui.Complain(&e.Err)
			return int(e.Code)
		case launcher.StillWaiting:
			s.waits(e)
		case wire.Warn:
			ui.Warn(e.Text)
		}
	}
}
