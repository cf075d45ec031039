package instance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
)

// Acts counts what the policies of tasks did in a run, by name: a simulation that draws a policy
// must also see the policy at work.
type Acts map[string]int

// Join adds other acts.
func (a Acts) Join(o Acts) {
	for name, n := range o { // any order: sums
		a[name] += n
	}
}

// String lists the acts with their numbers, by name.
func (a Acts) String() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		list = append(list, fmt.Sprint(name, " ", a[name]))
	}
	return strings.Join(list, ", ")
}

// Missing are the acts that did not happen, of those that enough seeds must see.
func (a Acts) Missing() (names []string) {
	want := []string{
		"changed", "old policy dropped", "given by give", "given by both", "given with its level", "stolen in order",
		"ran on nodes for tasks", "ran on nodes for gangs", "auto chose mlb", "auto chose mdl", "auto chose adage",
	}
	for k := policy.MLB; k <= policy.Auto; k++ {
		want = append(want, "started by "+k.String())
		if k != policy.MLB {
			want = append(want, "bound by "+k.String())
		}
	}
	for v := policy.Random; v < policy.NoStealing; v++ {
		want = append(want, "stolen by "+v.String())
	}
	for _, name := range want {
		if a[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

func (w *World) act(name string) {
	if w.acts == nil {
		w.acts = make(Acts)
	}
	w.acts[name]++
}

// lawOf is the policy of a launcher; the zero Policy without one.
func (h *host) lawOf() (p policy.Policy) {
	if h.node == nil {
		return p
	}
	p, _, _ = h.node.TaskPolicy()
	return p
}

// actsEvery is the time between two looks at the choices of auto.
const actsEvery = 250 * time.Millisecond

// lookAtChoices counts what auto chose for the workflows that a node leads.
func (w *World) lookAtChoices() {
	for _, h := range w.hosts {
		if h.node == nil || len(w.bags) == 0 {
			continue
		}
		_, queues, chosen := h.node.TaskPolicy()
		for _, c := range chosen { // any order: sums
			w.act("auto chose " + c.Kind.String())
		}
		if queues.Dedicated > 0 {
			w.act("bound by " + h.lawOf().Kind.String())
		}
	}
	if w.Now() < faultSpan+submitSpan {
		w.At(w.Now()+actsEvery, w.lookAtChoices)
	}
}

// taskWord looks at a message between the cores of tasks.
func (w *World) taskWord(from, to *host, body []byte) {
	kind := message.Kind(body[0])
	switch kind {
	case message.KindLoadAsk, message.KindSteal:
		if !w.steals {
			w.Fail("steals", "%s looks for tasks on %s, and no policy of the run lets nodes steal", from.Name, to.Name)
		}
	}
	switch kind {
	case message.KindLoadAsk, message.KindLoad, message.KindSteal, message.KindOffer:
	default:
		return
	}
	word, err := message.Decode(body)
	if err != nil {
		w.Fail("malformed", "%s sends %s: %v", from.Name, message.Name(body), err)
		return
	}
	switch m := word.(type) {
	case *message.LoadAsk:
		from.search.asks(from, to, m)
	case *message.Steal:
		w.checkOrder(from, to, m)
		w.noteHeldAsk(from, m)
	case *message.Offer:
		w.noteOffer(from, to, m)
		w.checkHeldOffer(from, to, m)
	}
}

// noteOffer counts tasks that go to another node.
func (w *World) noteOffer(from, to *host, m *message.Offer) {
	if len(m.Ranges)+len(m.Tasks) == 0 {
		return
	}
	p := from.lawOf()
	for i := range m.Tasks {
		w.checkLevel(from, &m.Tasks[i])
	}
	if slices.ContainsFunc(m.Tasks, func(t message.TaskItem) bool { return t.Dedicated }) {
		w.act("bound by " + p.Kind.String())
	}
	switch {
	case m.Ask > 0 && to.node != nil:
		w.act("stolen by " + to.lawOf().Victims.String())
	case m.Ask == 0 && !from.drains && p.Balance != policy.ByStealing && w.gives(m):
		w.act("given by " + p.Balance.String())
	}
}

// checkLevel: where a file states the length of each task, a task that goes to another node has a
// level of the longest chain behind the task at least.
func (w *World) checkLevel(from *host, t *message.TaskItem) {
	b := w.byBag[t.Job]
	if b == nil || len(b.request.Nodes) == 0 || t.Level == 0 {
		return
	}
	if least := b.chain(t.Index); t.Level < least {
		w.Fail("wrong-level", "%s gives task %d.%d with the level %v; the chain from there takes %v", from.Name, t.Job, t.Index, t.Level, least)
	} else if least > 0 {
		w.act("given with its level")
	}
}

// chain is the length of the longest chain from a task on; 0 where the file does not state the
// length of each task.
func (b *bag) chain(i int32) time.Duration {
	nodes := b.request.Nodes
	if b.chains == nil {
		b.chains = make([]time.Duration, len(nodes))
		for k := len(nodes) - 1; k >= 0; k-- { // tasks stand behind their parents
			if nodes[k].Length == 0 {
				clear(b.chains)
				break
			}
			b.chains[k] += nodes[k].Length
			for _, p := range nodes[k].Parents {
				b.chains[p] = max(b.chains[p], b.chains[k])
			}
		}
	}
	return b.chains[i]
}

// gives reports whether an offer has a part of a bag that nothing but work giving gives without a
// question.
func (w *World) gives(m *message.Offer) bool {
	return slices.ContainsFunc(m.Ranges, func(r message.RangeItem) bool {
		b := w.byBag[r.Job]
		return b != nil && b.request.Spread.String() == "1"
	})
}

// survey is a thief's question to some nodes, as the checkers see the question.
type survey struct {
	round uint32
	life  int32
	law   policy.Victims
	names []filch.NodeName
	said  map[filch.NodeName]said
}

// said is the answer of a node.
type said struct {
	load  int64
	class int32
}

// asks takes in that a thief asks a node.
func (s *survey) asks(from, to *host, m *message.LoadAsk) {
	if s.round != m.Round || s.life != from.Life() {
		*s = survey{round: m.Round, life: from.Life(), law: from.lawOf().Victims, said: make(map[filch.NodeName]said)}
		if m.Better {
			s.law = policy.Random
		}
	}
	s.names = append(s.names, to.Name)
}

// hears takes in the answer of a node, as the thief gets the answer.
func (s *survey) hears(h, from *host, m *launcher.TaskWord) {
	if message.Kind(m.Body[0]) != message.KindLoad || s.law != policy.Mesh || s.life != h.Life() {
		return
	}
	if word, err := message.Decode(m.Body); err == nil {
		if m := word.(*message.LoadSay); m.Round == s.round {
			if _, twice := s.said[from.Name]; !twice {
				s.said[from.Name] = said{m.Load, m.Class}
			}
		}
	}
}

// checkOrder: under dvs, a thief steals from the first of the nodes that it asked that has work,
// in the order in which it asked.
func (w *World) checkOrder(from, to *host, m *message.Steal) {
	s := &from.search
	if s.law != policy.Mesh || s.life != from.Life() || m.Fill.Held() {
		return
	}
	best := s.said[to.Name]
	for _, name := range s.names {
		if name == to.Name {
			w.act("stolen in order")
			return
		}
		if o := s.said[name]; o.load > 0 && o.class <= best.class {
			w.Fail("order", "%s steals from %s, and asked %s before, which has %d tasks (%s)", from.Name, to.Name, name, o.load, fmt.Sprint(s.names))
			return
		}
	}
}
