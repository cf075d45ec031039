package slots

import "github.com/filch-hpc/filch"

// What a claim may lack besides slots, for which the word is "", and resources by name.
const (
	LacksGPUs   = "GPUs"
	lacksMemory = "memory"
)

// Amount is the amount of slots, of what LacksGPUs and lacksMemory name, or of a resource.
func Amount(r filch.Room, what string) int64 {
	switch what {
	case "":
		return int64(r.Slots)
	case LacksGPUs:
		return int64(r.GPUs)
	case lacksMemory:
		return r.MemBytes
	}
	return r.Named.Of(what)
}

// InTheWay names what another rank of k lacks here, and the job with most of it, except k's;
// n is the job's slots.
func (l *Ledger) InTheWay(k Key) (job filch.JobID, n int32, lacks string) {
	lacks = lacking(l, k)
	has, held, most := make(map[filch.JobID]int64), make(map[filch.JobID]int32), int64(0)
	for _, c := range l.holds {
		if c.ask.Key.Job == k.Job {
			continue
		}
		of := c.ask.job() // of the gangs of a bag, all have one job
		has[of] += Amount(c.room, lacks)
		held[of] += c.room.Slots
		if has[of] > most {
			job, most = of, has[of]
		}
	}
	return job, held[job], lacks
}

// lacking is what another rank of k lacks although the slots suffice; "" for slots.
func lacking(l *Ledger, k Key) string {
	c := l.claims[k]
	if c == nil || c.ask.Exclusive {
		return ""
	}
	free, need := l.free.room, c.ask.Each
	if c.held == 0 {
		need = need.Plus(c.ask.Base)
	}
	switch {
	case need.Slots > free.Slots:
		return ""
	case need.GPUs > 0 && fitsGPUs(l.free.gpus, c, c.ask) < 1:
		return LacksGPUs
	case need.MemBytes > 0 && need.MemBytes > free.MemBytes:
		return lacksMemory
	}
	for _, name := range need.Named.Names() {
		if need.Named.Of(name) > free.Named.Of(name) {
			return name
		}
	}
	return ""
}
