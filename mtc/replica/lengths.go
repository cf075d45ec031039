package replica

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
)

// Kind is the tasks of a job that take about as long as each other: of a bag all tasks, of a
// workflow the tasks with a common kind.
type Kind struct {
	Job  filch.JobID
	Hash uint32 // of the name
}

// KindOf is the kind with a name.
func KindOf(job filch.JobID, name string) Kind {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return Kind{job, h.Sum32()}
}

// Bounds of what is known.
const (
	kindsMax  = 256 // kinds; the kind without news for the longest time is forgotten
	endsLeast = 3   // ends here before a length is known
)

// A slow task has run for lateFactor times as long as nine of ten tasks of its kind took, and
// for lateLeast longer.
const (
	lateFactor = 2
	lateLeast  = 500 * time.Millisecond
)

// Lengths is how long tasks with copies took: here, and on nodes in search of work.
// A slow node takes its own tasks for usual, so the least length counts.
type Lengths struct {
	kinds map[Kind]*length
	order []Kind // the kind with the latest news is the last
}

type length struct {
	policy.Durations
	said time.Duration // the least that another node said; 0: none did
}

func (l *Lengths) of(k Kind) *length {
	if l.kinds == nil {
		l.kinds = make(map[Kind]*length)
	}
	if i := slices.Index(l.order, k); i >= 0 {
		l.order = slices.Delete(l.order, i, i+1)
	} else if len(l.order) == kindsMax {
		delete(l.kinds, l.order[0])
		l.order = slices.Delete(l.order, 0, 1)
	}
	l.order = append(l.order, k)
	if l.kinds[k] == nil {
		l.kinds[k] = &length{}
	}
	return l.kinds[k]
}

// Add takes in how long a task took here.
func (l *Lengths) Add(k Kind, took time.Duration) { l.of(k).Add(took) }

// Heard takes in the lengths of another node, and reports whether they are news.
func (l *Lengths) Heard(list []message.Length) (news bool) {
	for _, w := range list {
		if k := l.of(Kind{w.Job, w.Hash}); w.Took > 0 && (k.said == 0 || w.Took < k.said) {
			k.said, news = w.Took, true
		}
	}
	return news
}

// Words are the lengths of the kinds with the latest news, for other nodes.
func (l *Lengths) Words() (list []message.Length) {
	for i := len(l.order) - 1; i >= 0 && len(list) < message.LengthsMax; i-- {
		if k := l.order[i]; l.kinds[k].Count() >= endsLeast {
			list = append(list, message.Length{Job: k.Job, Hash: k.Hash, Took: l.kinds[k].Limit()})
		}
	}
	return list
}

// Any reports whether a length is known: before that, no task counts as slow.
func (l *Lengths) Any() bool { return len(l.order) > 0 }

// Late is how long a task of a kind runs before it counts as slow; 0: not known.
func (l *Lengths) Late(k Kind) time.Duration {
	n := l.kinds[k]
	if n == nil {
		return 0
	}
	least := n.said
	if n.Count() >= endsLeast && (least == 0 || n.Limit() < least) {
		least = n.Limit()
	}
	if least == 0 {
		return 0
	}
	return max(lateFactor*least, least+lateLeast)
}

// faster reports whether a thief with these lengths would run a task in less time than the task
// has run; a thief without the length counts as fast.
func faster(list []message.Length, k Kind, ran time.Duration) bool {
	for _, w := range list {
		if w.Job == k.Job && w.Hash == k.Hash {
			return w.Took < ran
		}
	}
	return true
}
