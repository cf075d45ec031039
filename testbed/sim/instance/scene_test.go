package instance

import (
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// A scene is a small world with one story: what a fault seed once found, told
// without the rest of that seed.
type scene struct {
	*World
	t *testing.T
}

func newScene(t *testing.T, hosts int, each int32) *scene {
	return &scene{NewWorld(Options{Seed: 11, Hosts: hosts, Slots: each, Links: engine.Quiet(), Looks: engine.EachInput(), Words: true, MaxSteps: 2e6}), t}
}

func (s *scene) submit(host int32, at time.Duration, ranks int, runs time.Duration) *job {
	j := &job{host: host, demand: demand{Submit: at, Slots: ranks, Runs: runs}, outcome: newOutcome()}
	j.request = launcher.Request{
		Shape:  launcher.Shape{Ranks: int32(ranks), PerRank: filch.Room{Slots: 1}},
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
	s.Run(until)
	if len(s.Broken()) == 0 {
		s.checkQuiet()
	}
	for _, v := range s.Broken() {
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
		{"a job lost out of sight is lost to its client", outOfSight},
		{"a client hears of a job lost out of sight after a restart", outOfSightTwice},
		{"a launch that is given up says why", givenUp},
		{"ranks on a machine that stands still keep no attempt waiting for ever", standsStill},
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
	s.At(time.Second, func() {
		s.crash(s.hosts[5])
		s.hosts[5].lost = true
	})
	s.At(20*time.Second, func() {
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
	s.At(time.Second, func() {
		s.Net.Cut(0, 3, 1)
		s.Net.Cut(3, 0, 1)
		s.hosts[3].disturb(time.Minute)
	})
	s.At(13*time.Second, func() {
		for _, k := range s.hosts[3].keepers {
			if len(k.alive) > 0 {
				s.t.Error("ranks still run on the node that was cut off 12 s ago")
			}
		}
		s.Net.Cut(0, 3, -1)
		s.Net.Cut(3, 0, -1)
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
	s.At(time.Millisecond, func() { s.partition(s.hosts[:1], s.hosts[3:4], 3500*time.Millisecond, false) })
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
	s.At(500*time.Millisecond, send)
	s.At(time.Second, func() { s.killLauncher(s.hosts[0]) })
	s.At(1500*time.Millisecond, func() { s.restart(s.hosts[0]) })
	s.At(3*time.Second, send)
	s.At(3100*time.Millisecond, send)
	s.At(4*time.Second, func() {
		for _, h := range s.hosts {
			for _, k := range h.keepers {
				if k.signals != 3 {
					s.t.Errorf("the ranks on %s heard %d signals, want 3", h.Name, k.signals)
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
	s.At(time.Second, func() { s.killLauncher(s.hosts[0]) })
	s.At(1200*time.Millisecond, func() { s.restart(s.hosts[0]) })
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
		if p, ok := m.(*launcher.Progress); ok && from.Index != 0 && p.Phase == launcher.PhaseStarted {
			late = m
			s.watch = nil
			node := from
			s.At(time.Second, func() {
				s.killLauncher(s.hosts[0])
				s.crash(node)
				node.lost = true
			})
			s.At(3*time.Second, func() { s.restart(s.hosts[0]) })
			s.At(3500*time.Millisecond, func() {
				h := s.hosts[0]
				h.Arrive(s.Now(), func() {
					h.take(&input{from: node, body: late, do: func(now time.Duration, out *launcher.Outbox) { h.node.Message(now, node.Name, late, out) }})
				})
			})
		}
	}
	s.end(2 * time.Minute)
	if j.code != filch.ExitNodeLost {
		s.t.Errorf("the job ended with %d (%s), want %d", j.code, show(j.end.Cause), filch.ExitNodeLost)
	}
}

// outOfSight: the launcher of a waiting job stands still until its node is declared
// dead and the record of the job says that it is lost. Then it goes on, and room comes
// free: its client hears what the record says, and no rank is left.
func outOfSight(s *scene) {
	s.submit(1, time.Millisecond, 24, 8*time.Second)
	j := s.submit(0, 10*time.Millisecond, 12, 5*time.Second)
	s.At(time.Second, func() { s.pause(s.hosts[0], 7500*time.Millisecond, false) })
	s.end(time.Minute)
	if !j.over() || j.code != filch.ExitNodeLost || j.end.State != filch.Lost {
		s.t.Errorf("the job: over %t with %d, %s; want it lost", j.over(), j.code, show(j.end))
	}
}

// outOfSightTwice: the launcher dies over the word to the client, which dials the next
// one.
func outOfSightTwice(s *scene) {
	s.At(8499*time.Millisecond, func() {
		s.fuse = &fuse{host: 0, name: "reply", blow: func(h *host) {
			s.killLauncher(h)
			s.At(s.Now()+time.Second, func() { s.restart(h) })
		}}
	})
	outOfSight(s)
	if s.fuse == nil || !s.fuse.blown {
		s.t.Error("the launcher did not die over a word")
	}
}

// givenUp: a participant dies over its launch and comes back without it, while another
// one is cut off. The origin gives the launch up once it has waited 7 s for the ranks of
// the first one, and says so until the cut is over.
func givenUp(s *scene) {
	j, h, said := s.submit(0, time.Millisecond, 24, time.Second), s.hosts[0], false
	s.fuse = &fuse{host: 2, name: "Dispatch", input: true, blow: func(h *host) {
		s.killLauncher(h)
		s.At(s.Now()+200*time.Millisecond, func() { s.restart(h) })
		s.partition(s.hosts[:1], s.hosts[3:4], 9*time.Second, false)
	}}
	for at := 10 * time.Millisecond; at < 15*time.Second; at += 10 * time.Millisecond {
		s.At(at, func() {
			s.checkExplanations()
			x, err := h.node.Explain(h.Local(), j.id)
			said = said || err == nil && strings.HasPrefix(x.Text, "is being stopped, and will be launched again: ")
		})
	}
	s.end(time.Minute)
	if !s.fuse.blown || !said {
		s.t.Errorf("the participant died over its launch: %t; the origin said that it gave the launch up: %t", s.fuse.blown, said)
	}
}

// standsStill: the machine of a participant stands still for longer than the others
// wait for what was lost there. The job begins again meanwhile, and the machine ends its
// ranks as soon as it goes on (seed 13453).
func standsStill(s *scene) {
	job := s.submit(0, 10*time.Millisecond, 12, 25*time.Second)
	job.request.Detach, job.request.Policy.Requeue = true, true
	var still *host
	s.At(time.Second, func() {
		at := job.last().launch.Nodes
		still = s.byName[at[len(at)-1].Node]
		s.pause(still, 20*time.Second, true)
	})
	s.At(20*time.Second, func() {
		if len(job.attempts) != 2 || job.last().live != 12 {
			s.t.Errorf("the job has had %d attempts, want that the second one runs", len(job.attempts))
		}
	})
	s.At(22*time.Second, func() {
		if n := job.attempts[0].live; n > 0 || !still.Up() {
			s.t.Errorf("%d ranks of the first attempt run on %s", n, still.Name)
		}
	})
	s.end(time.Minute)
}
