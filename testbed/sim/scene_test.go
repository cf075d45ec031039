package sim

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/testbed/sim/fate"
)

// A scene is a small world with one story: what a fault seed once found, told
// without the rest of that seed.
type scene struct {
	*World
	t *testing.T
}

func newScene(t *testing.T, hosts int, each int32) *scene {
	return &scene{NewWorld(Options{Seed: 11, Hosts: hosts, Slots: each, Links: fate.Quiet(), Check: true, Words: true, MaxSteps: 2e6}), t}
}

func (s *scene) submit(host int32, at time.Duration, ranks int, runs time.Duration) *job {
	j := &job{host: host, demand: demand{Submit: at, Slots: ranks, Runs: runs}, outcome: newOutcome()}
	j.request = launcher.Request{
		Shape:  launcher.Shape{Ranks: int32(ranks), PerRank: slots.Room{Slots: 1}},
		Policy: launcher.Policy{KillOnBad: true, KillWait: 500 * time.Millisecond},
		Order:  order(len(s.jobs)),
	}
	j.plan = plan{checksMin: 100 * time.Microsecond, checksMax: 400 * time.Microsecond, unready: -1}
	s.add(j)
	return j
}

// end runs the scene to its end and checks that all is quiet.
func (s *scene) end(until time.Duration) {
	s.t.Helper()
	s.run(until)
	if len(s.broken) == 0 {
		s.checkQuiet()
	}
	for _, v := range s.broken {
		s.t.Error(v)
	}
}

func TestScenes(t *testing.T) {
	scenes := []struct {
		name string
		play func(s *scene)
	}{
		{"a job that fits no more keeps nobody waiting", fitsNoMore},
		{"a gang that lost its cut off part is lost", cutOff},
		{"an ask lost on a suspected node is repeated", suspected},
		{"signals are counted anew after a restart", signals},
		{"a restarted launcher lends nothing that is in use", inUse},
		{"an echo of a dead node is no sign of life", echo},
	}
	for _, x := range scenes {
		t.Run(x.name, func(t *testing.T) { x.play(newScene(t, 6, 4)) })
	}
}

// fitsNoMore: a job of the whole cluster waits when a node dies for good; it
// must give back what it holds, or the small job behind it never starts.
func fitsNoMore(s *scene) {
	s.submit(0, time.Millisecond, 20, 2*time.Second)
	whole := s.submit(1, 2*time.Millisecond, 24, time.Second)
	small := s.submit(2, 3*time.Millisecond, 6, time.Second)
	s.do(time.Second, func() {
		s.crash(s.hosts[5])
		s.hosts[5].lost = true
	})
	s.do(20*time.Second, func() {
		if !small.over() || small.code != 0 {
			s.t.Errorf("the small job: over %t with %d, want it done", small.over(), small.code)
		}
		whole.cancelled = true
		h := s.hosts[whole.host]
		h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Cancel(now, whole.id, 15, "the scene", out) })
	})
	s.end(time.Minute)
}

// cutOff: one node of a gang is cut off from its origin for longer than the
// lease, while others hear it: its ranks end, and so does the job, as lost.
func cutOff(s *scene) {
	j := s.submit(0, time.Millisecond, 24, 20*time.Second)
	s.do(time.Second, func() {
		s.net.Cut(0, 3, 1)
		s.net.Cut(3, 0, 1)
		s.hosts[3].disturb(time.Minute)
	})
	s.do(13*time.Second, func() {
		for _, k := range s.hosts[3].keepers {
			if len(k.alive) > 0 {
				s.t.Error("ranks still run on the node that was cut off 12 s ago")
			}
		}
		s.net.Cut(0, 3, -1)
		s.net.Cut(3, 0, -1)
		s.detect.look()
	})
	s.end(time.Minute)
	if j.code != filch.ExitNodeLost {
		s.t.Errorf("the gang ended with %d (%s), want %d", j.code, show(j.end.Cause), filch.ExitNodeLost)
	}
}

// suspected: the ask and its repeats are lost until the node is suspected; when
// it is heard again it must be asked again.
func suspected(s *scene) {
	j := s.submit(0, time.Second, 24, time.Second)
	s.do(time.Millisecond, func() { s.partition(s.hosts[:1], s.hosts[3:4], 3500*time.Millisecond, false) })
	s.end(time.Minute)
	if j.startedAt < 0 || j.startedAt > 5*time.Second {
		s.t.Errorf("the job started at %v, want soon after 3.5 s", j.startedAt)
	}
}

// signals: some before the origin's launcher is restarted, some after; each is
// delivered.
func signals(s *scene) {
	j := s.submit(0, time.Millisecond, 12, 5*time.Second)
	send := func() {
		h := s.hosts[0]
		h.call(func(now time.Duration, out *launcher.Outbox) {
			if err := h.node.Signal(now, j.id, signalBase+int32(j.signaled), out); err != nil {
				s.t.Errorf("signal %d: %v", j.signaled, err)
				return
			}
			j.signaled++
		})
	}
	s.do(500*time.Millisecond, send)
	s.do(time.Second, func() { s.killLauncher(s.hosts[0]) })
	s.do(1500*time.Millisecond, func() { s.restart(s.hosts[0]) })
	s.do(3*time.Second, send)
	s.do(3100*time.Millisecond, send)
	s.do(4*time.Second, func() {
		for _, h := range s.hosts {
			for _, k := range h.keepers {
				if k.signals != 3 {
					s.t.Errorf("the ranks on %s heard %d signals, want 3", h.name, k.signals)
				}
			}
		}
	})
	s.end(time.Minute)
}

// inUse: a job waits on a node whose launcher is restarted while keepers of
// another job have its slots.
func inUse(s *scene) {
	first := s.submit(1, time.Millisecond, 24, 4*time.Second)
	second := s.submit(0, 10*time.Millisecond, 4, time.Second)
	s.do(time.Second, func() { s.killLauncher(s.hosts[0]) })
	s.do(1200*time.Millisecond, func() { s.restart(s.hosts[0]) })
	s.end(time.Minute)
	for _, j := range []*job{first, second} {
		if !j.over() || j.code != 0 {
			s.t.Errorf("job %d: over %t with %d, want it done", j.id, j.over(), j.code)
		}
	}
}

// echo: a participant dies for good while the origin's launcher is away, and a
// late copy of a word of it arrives afterwards.
func echo(s *scene) {
	j := s.submit(0, time.Millisecond, 12, 30*time.Second)
	var late launcher.Message
	s.watch = func(from, to *host, m launcher.Message) {
		if p, ok := m.(*launcher.Progress); ok && from.index != 0 && p.Phase == launcher.PhaseStarted {
			late = m
			s.watch = nil
			node := from
			s.do(time.Second, func() {
				s.killLauncher(s.hosts[0])
				s.crash(node)
				node.lost = true
			})
			s.do(3*time.Second, func() { s.restart(s.hosts[0]) })
			s.do(3500*time.Millisecond, func() {
				s.queue.Push(s.now, event{kind: evMessage, from: node.index, to: 0, body: late})
			})
		}
	}
	s.end(2 * time.Minute)
	if j.code != filch.ExitNodeLost {
		s.t.Errorf("the job ended with %d (%s), want %d", j.code, show(j.end.Cause), filch.ExitNodeLost)
	}
}
