package runclient

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
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
	until   time.Time    // the ranks wait for their slots at most until then
	ending  atomic.Bool  // the client was told to end its run
	lost    *filch.Error // why the run is submitted once more
}

// submitsMax bounds how often a spawn is submitted: again when the launcher here, or a node of
// the new ranks, died before these began, and without the job around when the job has no room.
const submitsMax = 8

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
	s.until = time.Now().Add(s.request.Patient)
	s.call()
	for range submitsMax {
		if code, again := s.submit(ended); !again {
			return code
		}
		s.request.Patient = max(time.Until(s.until), time.Millisecond)
		if s.ending.Load() {
			break
		}
	}
	return s.refuse(s.lost)
}

// call numbers the call of the rank.
func (s *spawnedRun) call() {
	var b [8]byte
	_, _ = rand.Read(b[:])
	s.request.Call = binary.LittleEndian.Uint64(b[:]) | 1
}

// submit submits the run, and follows the run to its end; again says that the run is to be
// submitted once more. Where the run around the caller is a step, the new ranks are first
// a step beside the caller, on slots of the same job, and else a job with slots of its own.
func (s *spawnedRun) submit(ended <-chan os.Signal) (code int, again bool) {
	c, err := dialHere()
	if err == nil {
		s.run, err = c.Submit(&s.request)
	}
	if err != nil {
		return s.refuse(asError(err)), false
	}
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				s.ending.Store(true)
				if s.run.Cancel(ui.SIGTERM) != nil {
					os.Exit(filch.ExitCancelled)
				}
			case <-over:
				return
			}
		}
	}()
	defer s.run.Close()
	defer close(over)
	return s.follow()
}

// dialHere connects to the launcher of this node, which may be away for a moment. The
// launcher of another node does not know the rank that called.
func dialHere() (*client.Client, error) {
	base, err := place.Base()
	if err != nil {
		return nil, err
	}
	return client.Await(place.Dir{Base: base, Instance: os.Getenv("FILCH_INSTANCE"), Node: os.Getenv("FILCH_NODE")}, cli.Build)
}

// follow handles the launcher's events until the run has ended; again says that the run did
// not fit into the job around, or that the launcher died before the new ranks began.
func (s *spawnedRun) follow() (code int, again bool) {
	for {
		event, err := s.run.Next()
		if err != nil {
			switch {
			case s.started:
				code := codeOf(err, filch.ExitOurs)
				return s.say(launcher.SpawnNews{Ended: true, Code: int32(code), Cause: asError(err).Text}, code), false
			case s.run.Job == 0:
				s.lost = asError(err)
				return 0, true // the call keeps its number: the run may be known
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
				s.request.Parent, s.request.Task, s.lost = 0, 0, &e.Err
				s.call()
				return 0, true
			}
			return s.refuse(&e.Err), false
		case launcher.Ended:
			if !s.started && e.Cause.Kind == launcher.CauseNodeLost {
				s.lost = filch.Errorf(filch.NodeLost, "%s", e.Cause.Text)
				s.call()
				return 0, true
			}
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
