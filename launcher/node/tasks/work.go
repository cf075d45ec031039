package tasks

import "github.com/filch-hpc/filch/launcher"

// CountWork sets what the queues of w hold, how many tasks ended there, and what the node
// stole.
func CountWork(w *Tasks, to *launcher.Work) {
	q := w.core.Queues()
	to.Waiting, to.Ready, to.Running = q.Waiting, q.Dedicated+q.Shared+q.Frozen, q.Running
	ended, s := w.core.Look().Work()
	to.Ended, to.Tries, to.Steals, to.Won = ended, s.Tries, int64(s.Asks), s.Won
	for _, t := range s.From {
		to.From = append(to.From, launcher.Theft{Victim: t.Victim, Won: t.Won})
	}
	to.Firsts, to.FirstSecs, to.FirstMax = s.First.Count, s.First.Sum.Seconds(), s.First.Max.Seconds()
}
