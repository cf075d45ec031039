package runclient

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/wire"
)

// spawnedRun is the client of ranks that a rank spawned (MPI_Comm_spawn). A keeper starts
// the client with the request and a pipe for news; the client's own output is output of the
// rank that called.
type spawnedRun struct {
	request launcher.Request
	news    *json.Encoder
	run     *client.Run
	output  *ClientOutput
	started bool
}

// Spawned is the client of spawned ranks.
func Spawned(args []string) int {
	request, news := os.NewFile(launcher.SpawnRequestFD, "request"), os.NewFile(launcher.SpawnNewsFD, "news")
	if len(args) > 0 || request == nil || news == nil {
		return ui.Usage(filch.Errorf(filch.Invalid, "filch spawn is started by a keeper, not by hand"))
	}
	syscall.CloseOnExec(launcher.SpawnRequestFD)
	syscall.CloseOnExec(launcher.SpawnNewsFD)
	s := &spawnedRun{news: json.NewEncoder(news), output: &ClientOutput{Out: os.Stdout, Err: os.Stderr}}
	body, err := io.ReadAll(io.LimitReader(request, wire.MaxFrame))
	if err == nil {
		err = wire.Unmarshal(body, &s.request)
	}
	if err != nil {
		return s.refuse(filch.Errorf(filch.Internal, "cannot read the request for the new ranks: %s", err.Error()))
	}
	ended := make(chan os.Signal, 4)
	signal.Notify(ended, syscall.SIGTERM)
	return s.submit(ended)
}

// submit submits the run. Where the run around the caller is a step, the new ranks are first
// a step beside the caller, on slots of the same job, and else a job with slots of its own.
func (s *spawnedRun) submit(ended <-chan os.Signal) int {
	c, err := client.Dial(client.Options{Build: cli.Build})
	if err == nil {
		s.run, err = c.Submit(&s.request)
	}
	if err != nil {
		return s.refuse(asError(err))
	}
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				if s.run.Cancel(ui.SIGTERM) != nil {
					os.Exit(filch.ExitCancelled)
				}
			case <-over:
				return
			}
		}
	}()
	code, again := s.follow()
	close(over)
	s.run.Close()
	if again {
		s.request.Parent, s.request.Task = 0, 0
		return s.submit(ended)
	}
	return code
}

// follow handles the launcher's events until the run has ended; again says that the run did
// not fit into the job around.
func (s *spawnedRun) follow() (code int, again bool) {
	for {
		event, err := s.run.Next()
		if err != nil {
			if s.started {
				return s.say(launcher.SpawnNews{Ended: true, Code: filch.ExitOurs, Cause: asError(err).Text}, filch.ExitOurs), false
			}
			return s.refuse(asError(err)), false
		}
		switch e := event.(type) {
		case wire.Output:
			if err := s.output.Write(e); err != nil {
				_ = s.run.Cancel(ui.SIGTERM)
			}
		case wire.Warn:
			ui.Warn(e.Text)
		case launcher.Accepted:
			s.output.Width = output.Width(s.request.Shape.Ranks)
			s.say(launcher.SpawnNews{Job: e.Job}, 0)
		case launcher.StillWaiting:
			s.say(launcher.SpawnNews{Job: e.Job, Waits: e.Text}, 0)
		case launcher.Started:
			s.started = true
			s.say(launcher.SpawnNews{Job: e.Job, Started: e.Attempt}, 0)
		case launcher.Refused:
			if s.request.Parent != 0 && e.Err.Kind == filch.NoFit {
				return 0, true
			}
			return s.refuse(&e.Err), false
		case launcher.Ended:
			news := launcher.SpawnNews{Job: e.Job, Ended: true, Code: e.Code}
			if e.Cause.Kind != launcher.CauseNone {
				news.Cause = e.Cause.Text
			}
			return s.say(news, int(e.Code)), false
		}
	}
}

func (s *spawnedRun) refuse(err *filch.Error) int {
	return s.say(launcher.SpawnNews{Refused: err}, filch.ExitOurs)
}

// say writes a line for the keeper; code is passed through.
func (s *spawnedRun) say(news launcher.SpawnNews, code int) int {
	if s.news.Encode(&news) != nil {
		return filch.ExitOurs
	}
	return code
}

// asError is err as an error for a user.
func asError(err error) *filch.Error {
	var e *filch.Error
	if errors.As(err, &e) {
		return e
	}
	return filch.Errorf(filch.Internal, "%s", err.Error())
}
