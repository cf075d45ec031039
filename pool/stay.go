package pool

// Announce writes into the record how the nodes of allocation n are called; false: the pool
// has no such allocation. If another batch job has the number, the record stays.
func (p *Pool) Announce(n int64, group string) bool {
	a := p.Alloc(n)
	if a == nil {
		return false
	}
	if a.Group == "" {
		a.Group = group
	}
	return true
}

// Stay tells an allocation n, whose nodes are called group, whether it goes on. Why is the
// reason of its end, "" as long as it goes on. Ends says that its nodes drain: then the caller
// asks often. Nodes returns the nodes of the instance, and is called while the nodes drain.
// Known is false if the pool has no such allocation.
func (p *Pool) Stay(n int64, group string, nodes func() ([]Node, error)) (why string, ends, known bool, err error) {
	a := p.Alloc(n)
	switch {
	case a == nil:
		return "", false, false, nil
	case a.Group != group:
		return "job " + a.Job + " is that allocation", false, true, nil
	case a.State != Ending:
		return "", false, true, nil
	}
	all, err := nodes()
	if err != nil {
		return "", true, true, err
	}
	for i := range all {
		if v := &all[i]; v.Group == group && (v.Busy > 0 || v.Silent || !v.Draining) {
			return "", true, true, nil
		}
	}
	return a.Said, true, true, nil
}
