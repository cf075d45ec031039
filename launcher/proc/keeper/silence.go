package keeper

import (
	"time"

	"github.com/filch-hpc/filch/launcher"
)

// silenceMax is how long a launcher is silent before other nodes take its node for dead, and end
// their ranks of the run; silenceLook is how often the keeper looks.
const (
	silenceMax  = 5 * time.Second
	silenceLook = time.Second
)

// watchSilence notes, while a job of several nodes runs, that the launcher is silent for so long that other nodes end
// their ranks.
func (k *keeper) watchSilence() {
	due := time.Now().Add(silenceLook)
	k.hush = k.poll.After(silenceLook, func() {
		k.lookSilence(due)
		k.watchSilence()
	})
}

// lookSilence looks, at a time that was due. A look that comes late says nothing: this process itself
// was stopped, and messages of the launcher are still unread.
func (k *keeper) lookSilence(due time.Time) {
	k.silent = k.link.FD >= 0 && time.Since(due) < silenceLook && time.Since(k.leased) >= silenceMax
}

// follows reports whether the end of a rank is a consequence of the launcher's silence: the keeper
// ended the job for the silence, or other nodes ended their ranks.
func follows(j *job, e *launcher.RankEnd) bool {
	return e.Kind != launcher.CauseNone && (j.stop.abandoned || j.keeper.silent && len(j.order.Launch.Nodes) > 1)
}
