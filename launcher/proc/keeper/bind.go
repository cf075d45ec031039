package keeper

import (
	"fmt"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/topology"
)

// bind gives this thread the cpus of r, so the child starts on these cpus.
func (j *job) bind(r *rank) proc.Binding {
	lent, bound := j.order.Processors, &j.what.Bind
	lent = topology.Ordered(bound.Order, lent, len(j.ranks), lent)
	cpus, kind := topology.Choose(bound.Kind, bound.List, lent, r.local, len(j.ranks))
	b, err := proc.Bind(proc.MaskOf(cpus), kind)
	if err != nil && !j.stop.unbound {
		j.stop.unbound = true
		j.warn(fmt.Sprintf("%s: cannot bind rank %d to cpus %v: %s; it runs unbound", j.node(), r.id, cpus, proc.Reason(err)))
	}
	return b
}

// reportBinding writes srun's line on the rank's stderr (--cpu-bind=verbose).
func (j *job) reportBinding(r *rank, b proc.Binding) {
	if !j.what.Bind.Verbose {
		return
	}
	set := b.Set
	if set == nil {
		set, _ = proc.AffinityOf(r.pid)
	}
	line := fmt.Sprintf("cpu-bind=%s - %s, task %2d %2d [%d]: mask %s set\n", b.Kind, shortName(j.node()), r.id, r.local, r.pid, set)
	for _, s := range j.io.streams {
		if s.rank == r && s.fd >= 0 && (s.no == 2 || s.cut.Raw) {
			j.io.emit(s, []byte(line), false)
			return
		}
	}
	j.warn(strings.TrimSuffix(line, "\n"))
}

func shortName(n filch.NodeName) string { return output.Expand("%N", output.Place{Node: n}) }
