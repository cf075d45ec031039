package origin

import "github.com/filch-hpc/filch/launcher"

// universe is the most ranks of the kind of a job that its nodes, or the slots of the job
// around, could hold, whatever runs there: as mpirun counts the slots of its allocation.
func (a *attempts) universe(j *job) int32 {
	if j.req.Parent != 0 {
		l := a.ranks.LaunchIn(j.req.Parent)
		if l == nil || j.req.Task != 0 {
			return j.need.Ranks
		}
		slots := l.Each.Times(l.Size).Slots + l.Base.Times(int32(len(l.Nodes))).Slots
		return max(slots/max(j.need.Each.Slots, 1), j.need.Ranks)
	}
	most, _ := j.need.Ceiling(a.Members)
	return int32(min(max(most, int64(j.need.Ranks)), launcher.MaxRanks))
}
