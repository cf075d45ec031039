package node_test

import (
	"fmt"
	"time"
)

// quiet fails unless every slot is whole and no job, part or keeper is left.
func (w *net) quiet() {
	w.t.Helper()
	for _, s := range w.left() {
		w.t.Errorf("at %v %s", w.Now(), s)
	}
}

// left is what keeps the net from being quiet.
func (w *net) left() (all []string) {
	for _, name := range w.names {
		h := w.nodes[name]
		if !h.Up() {
			continue
		}
		if s := h.node.Slots(); s.Free != s.Slots || s.Jobs != 0 || s.Waiting != 0 {
			all = append(all, fmt.Sprintf("%s has %+v, want all slots free", name, s))
		}
		if len(h.keepers) > 0 {
			all = append(all, fmt.Sprintf("%s has %d keepers left", name, len(h.keepers)))
		}
		for _, j := range h.node.Jobs(w.Now()) {
			if j.Code == nil {
				all = append(all, fmt.Sprintf("job %d of %s is still %s: %s", j.ID, name, j.State, j.Cause))
			}
		}
	}
	return all
}

// calm runs until the net is quiet, at most for d, and then for what comes late.
func (w *net) calm(d time.Duration) {
	w.t.Helper()
	for end := w.Now() + d; w.Now() < end && len(w.left()) > 0; {
		w.run(sec)
	}
	w.run(30 * sec)
	w.quiet()
}
