package keeper

import (
	"fmt"
	"os"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
)

func newScratch(k *keeper) proc.Scratch {
	s := proc.ScratchPrefix(k.place)
	k.scratches++
	word := fmt.Sprintf("%d.%d", os.Getpid(), k.scratches)
	return proc.Scratch{Dir: s.Dir + word, Shm: s.Shm + word}
}

// makeTmp makes the TMPDIR of the job's ranks on this node, if the job has one.
func (j *job) makeTmp() *proc.Failure {
	if !j.what.Hooks.PrivateTmp {
		return nil
	}
	s := newScratch(j.keeper)
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return proc.Failf(launcher.CauseOurs, filch.Denied, "cannot make the folder of --private-tmp on %s: %s", j.node(), proc.Reason(err)).
			Hint("free space there, or run without --private-tmp")
	}
	j.tmp = s.Dir
	return nil
}

// removeTmp removes the folder beside the keeper's work: the folder may be large. The sweep
// of scratch folders removes a folder whose keeper died first.
func (j *job) removeTmp() {
	if dir := j.tmp; dir != "" {
		j.tmp = ""
		j.keeper.removals.Go(func() { os.RemoveAll(dir) })
	}
}
