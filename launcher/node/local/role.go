package local

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/stealer"
)

// roleBars reports whether the roles of the live nodes that a job asks for keep the job from
// all of them.
func (s *Self) roleBars(d *stealer.Need) (bars bool) {
	for _, m := range s.Members.All() {
		if m.Standing > filch.Draining || !d.Nodes.Allows(&m) {
			continue
		}
		if m.Role.Takes(!d.Task) {
			return false
		}
		bars = true
	}
	return bars
}

func noRole(d *stealer.Need) *filch.Error {
	what, among := "ranks", ""
	if d.Task {
		what = "tasks"
	}
	if len(d.Only)+len(d.Exclude) > 0 || d.Labels != "" {
		among = " among the nodes asked for"
	}
	return filch.Errorf(filch.NoFit, "cannot run %s: there is no node for %s%s", what, kindOf(d), among).
		WithHint("filch up --role says what a node is for; filch nodes lists the roles")
}

// kindOf is the kind of work that a node must be for.
func kindOf(d *stealer.Need) string {
	if d.Task {
		return filch.ForTasks.String()
	}
	return filch.ForGangs.String()
}
