package instance

import (
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// job is a submission of a workload: what is asked and what its ranks will do.
type job struct {
	demand
	outcome
	index    int
	host     int32 // whose client submits it
	request  launcher.Request
	plan     plan
	attempts []*attempt
	parent   *job      // of a step
	steps    []*job    // submitted when it has started
	task     *process  // whose step it is
	gang     *gangTask // whose ranks it is
	wishes
	awaits  func() // fills in the conditions when the job is submitted; nil: none
	awaited []awaited
	spawned        // by a rank of another job
	spawns  []*job // of its ranks
}

// wishes are what the client of a job does beside waiting.
type wishes struct {
	signals  int  // forwards so many
	signaled int  // those that were taken
	insist   bool // cancels it, harder each time
}

// client is the connection of the job's client; each job has its own.
func (j *job) client() launcher.ClientID { return launcher.ClientID(j.index + 1) }

// The workloads below are those of the measurements behind the design: half a
// cluster, 60 % and all of it, and a stream of small jobs with some big ones.

// burst is count jobs of the given slots each, submitted within a moment, from
// hosts drawn at random.
func burst(hosts, count, slots int, within, runs time.Duration, rng *engine.Dice) []job {
	jobs := make([]job, count)
	for i := range jobs {
		jobs[i].demand = demand{Submit: rng.Between(1, within), Slots: slots, Runs: runs}
		jobs[i].host = int32(rng.N(hosts))
	}
	return jobs
}

// stream loads the cluster to the given share with jobs of 1 to 256 slots and
// 1 to 5 s for as long as lasts, and spreads bigs jobs of half the cluster and
// 5 s evenly over the first 100/120 of it.
func stream(hosts, total int, load float64, lasts time.Duration, bigs int, rng *engine.Dice) []job {
	const slotsMax, meanSlots, meanRuns = 256, 128.5, 3.0
	var jobs []job
	add := func(at time.Duration, slots int, runs time.Duration) {
		jobs = append(jobs, job{demand: demand{Submit: at, Slots: slots, Runs: runs}, host: int32(rng.N(hosts))})
	}
	gap := time.Duration(meanSlots * meanRuns / (load * float64(total)) * float64(time.Second))
	for at := rng.Exp(gap); at < lasts; at += rng.Exp(gap) {
		add(at, 1+rng.N(min(slotsMax, total/2)), rng.Between(time.Second, 5*time.Second))
	}
	for i := range bigs {
		add(lasts*100/120*time.Duration(i+1)/time.Duration(bigs+1), total/2, 5*time.Second)
	}
	return jobs
}

// demands lists what an oracle needs to know of the jobs.
func demands(jobs []job) []demand {
	ds := make([]demand, len(jobs))
	for i := range jobs {
		ds[i] = jobs[i].demand
	}
	return ds
}
