package launcher

import "github.com/filch-hpc/filch"

// Work counts the work of one node since its launcher began, and describes its queues. A
// node that was declared dead and lives counts its tasks and steals anew.
type Work struct {
	Node   filch.NodeName `json:"name"`
	Silent bool           `json:"silent,omitempty"` // did not answer: all numbers are 0
	Slots  int32          `json:"slots"`
	Busy   int32          `json:"busy"` // slots with ranks or tasks now
	// Seconds until the batch system takes the node away; 0 unknown.
	Left float64 `json:"left,omitempty"`
	// Seconds of all slots since the launcher began; the busy seconds of these.
	SlotSecs float64 `json:"slot_seconds"`
	BusySecs float64 `json:"busy_seconds"`
	Used     float64 `json:"utilisation"` // BusySecs / SlotSecs
	Waiting  int64   `json:"waiting"`     // tasks of workflows led by the node, for other tasks
	Ready    int64   `json:"ready"`
	Running  int64   `json:"running"`
	Ended    int64   `json:"ended"` // attempts of tasks
	// As in policy.Steals of the package mtc/policy.
	Tries   int64   `json:"tries"`
	Steals  int64   `json:"steals"`
	Won     int64   `json:"won"`
	HitRate float64 `json:"hit_rate"` // Won / Tries
	// Of the first steals of jobs: their number, and the seconds of looking before each, in
	// sum, in the mean, and at most.
	Firsts    int64   `json:"first_steals"`
	FirstSecs float64 `json:"first_seconds"`
	FirstMean float64 `json:"first_mean"`
	FirstMax  float64 `json:"first_max"`
	// The nodes from which the node stole last, and the steals won from each.
	From []Theft `json:"stolen_from,omitempty"`

	Messages uint64 `json:"messages"`       // sent to other nodes
	Store    uint64 `json:"store_messages"` // sent between stores, not in Messages
}

// Theft counts the steals that a node won from another node.
type Theft struct {
	Victim filch.NodeName `json:"victim"`
	Won    int64          `json:"won"`
}

// Add adds the work of another node.
func (w *Work) Add(v *Work) {
	w.Slots, w.Busy = w.Slots+v.Slots, w.Busy+v.Busy
	w.Waiting, w.Ready, w.Running = w.Waiting+v.Waiting, w.Ready+v.Ready, w.Running+v.Running
	w.FirstMax = max(w.FirstMax, v.FirstMax)
	w.count(v, 1)
}

// Since subtracts the counts of an earlier answer of the same node, unless the node has begun
// anew since. The present state and the longest delay stay.
func (w *Work) Since(old *Work) {
	if w.Ended >= old.Ended && w.Tries >= old.Tries && w.SlotSecs >= old.SlotSecs && w.Messages >= old.Messages {
		w.count(old, -1)
	}
}

// count adds the counts of v, or subtracts them if by is -1, and sets the rates.
func (w *Work) count(v *Work, by int64) {
	w.SlotSecs, w.BusySecs = w.SlotSecs+float64(by)*v.SlotSecs, w.BusySecs+float64(by)*v.BusySecs
	w.Ended += by * v.Ended
	w.Tries, w.Steals, w.Won = w.Tries+by*v.Tries, w.Steals+by*v.Steals, w.Won+by*v.Won
	w.Firsts, w.FirstSecs = w.Firsts+by*v.Firsts, w.FirstSecs+float64(by)*v.FirstSecs
	w.Messages, w.Store = w.Messages+uint64(by)*v.Messages, w.Store+uint64(by)*v.Store
	w.Rate()
}

// Rate sets the rates from the counts; a rate of nothing is 0.
func (w *Work) Rate() {
	w.Used, w.HitRate, w.FirstMean = part(w.BusySecs, w.SlotSecs), part(float64(w.Won), float64(w.Tries)), part(w.FirstSecs, float64(w.Firsts))
}

func part(a, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return a / of
}
