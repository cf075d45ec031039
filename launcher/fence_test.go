package launcher_test

import (
	"fmt"
	"testing"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/launcher"
)

// The scenes in which an old owner must not have its way. Each returns what it
// saw that must not be.
var fenceScenes = map[string]func(t testing.TB) string{
	// Ranks of an origin that is cut off end before anything of the job starts anew.
	"no-fence-off": func(t testing.TB) string {
		w, wrong := newNetWith(t, 5, 4, true), ""
		w.behave = func(k *keeper) {
			k.at = 60 * sec
			if k.start.Launch.Ident.Attempt > 1 && len(w.nodes["n1"].keepers) > 0 {
				wrong = fmt.Sprintf("at %v attempt %d starts on %s, and ranks run on n1", w.now, k.start.Launch.Ident.Attempt, k.host.name)
			}
		}
		r := ranks(8)
		r.Policy.Requeue, r.Policy.KillWait = true, sec
		w.detach("n1", 1, r)
		w.run(2 * sec)
		w.split("n1")
		w.run(60 * sec)
		return wrong
	},
	// An old owner whose words come late is not heeded.
	"hopless": func(t testing.TB) string {
		w := newNetWith(t, 5, 4, true)
		w.behave = func(k *keeper) { k.at = 60 * sec }
		r := ranks(8)
		r.Shape.Only = []filch.NodeName{"n2", "n3"}
		id := w.detach("n1", 1, r)
		w.run(2 * sec)
		w.split("n1")
		w.until("the job to be taken over", 10*sec, func() bool { i, _ := w.told(id); return i.Hop == 1 })
		for i, at := range []filch.NodeName{"n2", "n3"} {
			late := &Halt{Job: id, Attempt: 1, Index: int32(i), Level: 1 << 20, Signal: 15, Reason: "the scene"}
			w.nodes[at].input(func(out *Outbox) { w.nodes[at].node.Message(w.now, "n1", late, out) })
		}
		w.until("the end of the job", 120*sec, func() bool { i, _ := w.told(id); return i.Code != nil })
		if i, _ := w.told(id); *i.Code != 0 {
			return fmt.Sprintf("the job ended with %d: %s", *i.Code, i.Cause)
		}
		return ""
	},
	// A waiting job of an origin that is cut off does not start there.
	"eager-launch": func(t testing.TB) string {
		w, wrong := newNetWith(t, 5, 4, true), ""
		w.behave = func(k *keeper) { k.at = 100 * sec }
		w.submit("n2", 1, ranks(20))
		w.run(sec)
		id := w.detach("n1", 2, ranks(4))
		w.behave = func(k *keeper) {
			k.at = 60 * sec
			if k.host.name == "n1" && k.start.Launch.Ident.Job == id {
				wrong = fmt.Sprintf("at %v job %d starts on n1, which is cut off", w.now, id)
			}
		}
		w.run(100 * ms)
		w.split("n1")
		w.run(30 * sec)
		return wrong
	},
	"hasty-merge": slowMerges,
}

func TestAnOldOwnerHasNoSay(t *testing.T) {
	for name, scene := range fenceScenes {
		t.Run(name, func(t *testing.T) {
			if wrong := scene(t); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}
