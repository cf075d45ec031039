package instance

// checkCap: no more tasks of a bag run at a time than its cap says, as far as the
// processes tell. A host in trouble may have been declared dead, and what it had
// is given to others; until it learns so its tasks go on, and do not count.
func (w *World) checkCap(b *bag) {
	most := b.request.Spec.Cap
	if most == 0 || b.running <= most {
		return
	}
	var running int32
	for _, h := range w.hosts {
		if h.trouble+leaseBound >= w.Now() {
			continue
		}
		for _, p := range h.tasks { // any order: a sum
			if p.bag == b {
				running++
			}
		}
		for _, g := range h.gangs { // any order: a sum
			if g.bag == b && g.began {
				running++
			}
		}
	}
	if running > most {
		w.Fail("over-cap", "%d tasks of job %d run at a time, at most %d may", running, b.id, most)
	}
}
