package main

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// runMain is filch run. It is on the path of every launch, so it reads its
// options itself and builds no command tree.
func runMain(args []string, instance string) int {
	r, err := spec.Parse(args)
	if err != nil {
		return usage(err)
	}
	if r.Client.Help {
		return runHelp()
	}
	if r.Client.MPIList {
		_, _ = os.Stdout.WriteString(strings.Join(spec.MPITypes[:], "\n") + "\n")
		return 0
	}
	if r.Client.Instance == "" {
		r.Client.Instance = instance
	}
	around, err := surroundings()
	if err != nil {
		return fail(err)
	}
	warnings, err := r.Finish(around)
	if err == nil {
		err = checkDetached(r)
	}
	if err != nil {
		return usage(err)
	}
	if !r.Client.Quiet {
		for _, w := range warnings {
			warn(w)
		}
	}
	return launch(r, around)
}

// checkDetached refuses what needs a client in a run that has none.
func checkDetached(r *spec.Run) error {
	if !r.Request.Detach {
		return nil
	}
	for _, v := range [...]struct{ option, value string }{{"output", r.Client.Stdout}, {"error", r.Client.Stderr}} {
		if v.value != "" && v.value != "all" && v.value != launcher.NoFile && !allDigits(v.value) && output.SideOf(v.value) == output.SideClient {
			return filch.Errorf(filch.Invalid, "--%s=%s needs a client to write it, and --detach leaves none", v.option, v.value).
				WithHint("put %%t, %%n or %%N into the name, or read the output with filch logs JOB")
		}
	}
	if in := r.Client.Stdin; in == "" || in == "all" {
		r.Order.IO.StdinMode = launcher.StdinNone
	} else if r.Order.IO.StdinMode != launcher.StdinNone && r.Order.IO.StdinMode != launcher.StdinFile {
		return filch.Errorf(filch.Invalid, "--input=%s needs a client to read it, and --detach leaves none", in).
			WithHint("put %%t, %%n or %%N into the name, or redirect it in the command: sh -c './a < file'")
	}
	return nil
}

// launch submits the run and stays with it.
func launch(r *spec.Run, around spec.Context) int {
	process(&r.Order)
	s := &session{spec: r, cwd: around.Cwd}
	in, err := s.openStdin()
	if err != nil {
		return fail(err)
	}
	if r.Client.Pty {
		w := terminalSize()
		r.Order.Pty = &w
	}
	if r.Request.Order, err = wire.Marshal(&r.Order); err != nil {
		return fail(err)
	}
	if n := len(r.Request.Order); n > launcher.MaxOrderBytes {
		return fail(filch.Errorf(filch.Invalid, "the command and its environment have %d bytes, %d at most", n, launcher.MaxOrderBytes).
			WithHint("pass less with --export"))
	}
	c, err := client.Dial(client.Options{Instance: r.Client.Instance, Build: version})
	if err != nil && manner.absent != nil && unreached(err) {
		return manner.absent(err)
	}
	if err != nil {
		return fail(err)
	}
	if err := fitWalltime(r, c.Dir); err != nil {
		if kindOf(err) == filch.Invalid {
			return usage(err)
		}
		return fail(err)
	}
	if c.Dir.Instance != os.Getenv("FILCH_INSTANCE") {
		r.Request.Parent, r.Request.Task, r.Request.Inside = 0, 0, launcher.Inside{} // FILCH_JOB is a job of another instance
	}
	withdraw := func() {}
	if r.Client.Bcast != "" {
		if withdraw, err = broadcast(r, around, c.Dir); err != nil {
			return fail(err)
		}
	}
	if s.run, err = c.Submit(&r.Request); err != nil {
		withdraw() // from here on the launcher does
		return fail(err)
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

// openStdin opens what the ranks read: our own standard input, or the file of
// -i. A null device is left to the nodes.
func (s *session) openStdin() (*os.File, error) {
	io := &s.spec.Order.IO
	if io.StdinMode != launcher.StdinAll {
		return os.Stdin, nil
	}
	if in := s.spec.Client.Stdin; in != "" && in != "all" {
		f, err := os.Open(in)
		if err != nil {
			return nil, filch.Errorf(filch.Invalid, "cannot open the input file: %s", err.Error())
		}
		return f, nil
	}
	if isNull(os.Stdin) {
		io.StdinMode = launcher.StdinNone
	}
	return os.Stdin, nil
}

// detached waits until the job exists, prints its number and leaves.
func (s *session) detached() int {
	for {
		event, err := s.run.Next()
		if err != nil {
			return fail(err)
		}
		switch e := event.(type) {
		case launcher.Accepted:
			if s.spec.Client.JSON {
				b, _ := json.Marshal(struct {
					ID   filch.JobID `json:"id"`
					Name string      `json:"name"`
				}{e.Job, s.spec.Request.Name})
				_, _ = os.Stdout.Write(append(b, '\n'))
			} else {
				_, _ = os.Stdout.WriteString(e.Job.String() + "\n")
			}
			s.run.Close()
			return 0
		case launcher.Refused:
			complain(&e.Err)
			return int(e.Code)
		case launcher.StillWaiting:
			s.waits(e)
		case wire.Warn:
			warn(e.Text)
		}
	}
}
