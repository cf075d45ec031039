package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/filch-hpc/filch/launcher/daemon/query"
)

// A family is a metric with at most one label.
type family struct {
	name  string
	help  string
	kind  prometheus.ValueType
	label string // "": the metric has one value
	read  func(r *query.Reading, put func(label string, v float64))
}

// one reads a metric without a label.
func one[N int | int32 | int64 | uint64 | float64](f func(r *query.Reading) N) func(*query.Reading, func(string, float64)) {
	return func(r *query.Reading, put func(string, float64)) { put("", float64(f(r))) }
}

// counts reads counters of the launcher by their names there.
func counts(labels ...[2]string) func(*query.Reading, func(string, float64)) {
	return func(r *query.Reading, put func(string, float64)) {
		for _, l := range labels {
			put(l[0], float64(r.Stats.Counts[l[1]]))
		}
	}
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// families are the metrics of a launcher.
var families = []family{
	{"filch_uptime_seconds", "Time since the launcher began.", gauge, "", one(func(r *query.Reading) float64 { return r.Stats.UptimeSecs })},
	{"filch_members", "Nodes of the instance by state, as this node knows the states.", gauge, "state", func(r *query.Reading, put func(string, float64)) {
		for state, n := range r.Members {
			put(state, float64(n))
		}
	}},
	{"filch_slots", "Slots of the node.", gauge, "", one(func(r *query.Reading) int32 { return r.Slots.Slots })},
	{"filch_slots_by_state", "Slots of the node by state; the states sum up to filch_slots. Running: of ranks; lent: used by tasks while a run gathers.", gauge, "state", func(r *query.Reading, put func(string, float64)) {
		s := &r.Slots
		put("free", float64(s.Free))
		put("held", float64(s.Held))
		put("lent", float64(s.Lent))
		put("locked", float64(s.Locked))
		put("running", float64(s.Running))
		put("tasks", float64(s.Tasks))
		put("stuck", float64(s.Stuck))
	}},
	{"filch_slot_seconds_total", "Time of all slots, busy or not.", counter, "", one(func(r *query.Reading) float64 { return r.Work.SlotSecs })},
	{"filch_slot_busy_seconds_total", "Time of slots with ranks or tasks.", counter, "", one(func(r *query.Reading) float64 { return r.Work.BusySecs })},
	{"filch_memory_bytes", "Memory that the node grants to jobs.", gauge, "", one(func(r *query.Reading) int64 { return r.Slots.MemBytes })},
	{"filch_memory_free_bytes", "Memory that no job has been granted.", gauge, "", one(func(r *query.Reading) int64 { return r.Slots.MemFree })},
	{"filch_draining", "1 while the node takes no new work.", gauge, "", one(func(r *query.Reading) int {
		if r.Slots.Draining {
			return 1
		}
		return 0
	})},

	{"filch_runs_waiting", "Runs on the node's wait list for slots.", gauge, "", one(func(r *query.Reading) int32 { return r.Slots.Waiting })},
	{"filch_attempts_here", "Attempts of runs with ranks on the node.", gauge, "", one(func(r *query.Reading) int32 { return r.Slots.Jobs })},
	{"filch_tasks", "Tasks in the node's queues by state.", gauge, "state", func(r *query.Reading, put func(string, float64)) {
		put("waiting", float64(r.Work.Waiting))
		put("ready", float64(r.Work.Ready))
		put("running", float64(r.Work.Running))
	}},
	{"filch_task_attempts_ended_total", "Attempts of tasks that ended on the node.", counter, "", one(func(r *query.Reading) int64 { return r.Work.Ended })},
	{"filch_steal_tries_total", "Questions for work to other nodes; each goes to several nodes.", counter, "", one(func(r *query.Reading) int64 { return r.Work.Tries })},
	{"filch_steals_total", "Tries that found a node with work.", counter, "", one(func(r *query.Reading) int64 { return r.Work.Steals })},
	{"filch_steals_won_total", "Steals that brought a task.", counter, "", one(func(r *query.Reading) int64 { return r.Work.Won })},
	{"filch_first_steals_total", "Steals that brought the first task of a job to the node.", counter, "", one(func(r *query.Reading) int64 { return r.Work.Firsts })},
	{"filch_first_steal_seconds_total", "Time from the begin of a search for work to the first task of a job, in sum.", counter, "", one(func(r *query.Reading) float64 { return r.Work.FirstSecs })},

	{"filch_submissions_total", "Jobs that clients of this node submitted.", counter, "", counts([2]string{"", "submissions"})},
	{"filch_clients", "Connected clients.", gauge, "", one(func(r *query.Reading) int { return r.Stats.Clients })},
	{"filch_clients_refused_total", "Clients of another user or version, or beyond the limit.", counter, "", counts([2]string{"", "clients_refused"})},
	{"filch_keepers", "Processes that keep the ranks of jobs on the node.", gauge, "", one(func(r *query.Reading) int { return r.Stats.Keepers })},
	{"filch_keepers_ended_badly_total", "Keepers that vanished before their work was done.", counter, "", counts([2]string{"", "keepers_gone"})},
	{"filch_processes_swept_total", "Processes of dead attempts that the launcher killed.", counter, "", counts([2]string{"", "swept"})},
	{"filch_connections", "Connections to other nodes.", gauge, "", one(func(r *query.Reading) int { return r.Stats.Conns })},
	{"filch_messages_total", "Messages between the nodes by direction; lost messages found no way or a full queue.", counter, "direction", counts([2]string{"in", "messages_in"}, [2]string{"out", "messages_out"}, [2]string{"lost", "messages_lost"})},
	{"filch_messages_sent_total", "Messages to other nodes by kind.", counter, "kind", func(r *query.Reading, put func(string, float64)) {
		for kind, n := range r.Stats.Sent {
			put(kind, float64(n))
		}
	}},
	{"filch_store_messages_total", "Messages between the stores of records by direction.", counter, "direction", counts([2]string{"in", "store_in"}, [2]string{"out", "store_out"})},
	{"filch_relays_total", "Frames of output, input and wire-up that the node passed on, by direction.", counter, "direction", counts([2]string{"in", "relays_in"}, [2]string{"out", "relays_out"}, [2]string{"lost", "relays_lost"})},
	{"filch_frames_bad_total", "Frames that broke the protocol.", counter, "", counts([2]string{"", "frames_bad"})},
	{"filch_loop_turns_total", "Turns of the launcher's loop.", counter, "", counts([2]string{"", "turns"})},
}

// collector reads the launcher once for each scrape.
type collector struct {
	read     func() (*query.Reading, error)
	info     *prometheus.Desc
	families []*prometheus.Desc
}

func newCollector(read func() (*query.Reading, error)) *collector {
	c := &collector{
		read: read,
		info: prometheus.NewDesc("filch_node_info", "The node's name, and the version of its launcher; always 1.", []string{"node", "build"}, nil),
	}
	for i := range families {
		f := &families[i]
		var labels []string
		if f.label != "" {
			labels = []string{f.label}
		}
		c.families = append(c.families, prometheus.NewDesc(f.name, f.help, labels, nil))
	}
	return c
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.info
	for _, d := range c.families {
		ch <- d
	}
}

// Collect sends the values of one reading, or the error that the reading met.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	r, err := c.read()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.info, err)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.info, gauge, 1, string(r.Stats.Node), r.Build)
	for i := range families {
		f := &families[i]
		f.read(r, func(label string, v float64) {
			if f.label == "" {
				ch <- prometheus.MustNewConstMetric(c.families[i], f.kind, v)
			} else {
				ch <- prometheus.MustNewConstMetric(c.families[i], f.kind, v, label)
			}
		})
	}
}
