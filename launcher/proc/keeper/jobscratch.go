package keeper

import (
	"context"
	"os"
	"path/filepath"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
)

func newScratch(k *keeper) proc.Scratch {
	s, word := proc.ScratchPrefix(k.place), k.folderWord()
	return proc.Scratch{Dir: s.Dir + word, Shm: s.Shm + word}
}

// folderWord is unique among the folders of the node's keepers.
func (k *keeper) folderWord() string {
	k.scratches++
	return proc.KeeperWord(os.Getpid(), k.scratches)
}

// makeTmp makes the TMPDIR of the job's ranks on this node, if the job has one.
func (j *job) makeTmp() *proc.Failure {
	if !j.what.Hooks.PrivateTmp {
		return nil
	}
	l, place := &j.order.Launch, j.keeper.place
	what := l.Ident.Job.String()
	if l.Of.Job != 0 {
		what = l.Of.String()
	}
	dir := filepath.Join(place.TmpDir(), place.TmpName(what, l.Ident.Attempt, j.keeper.folderWord()))
	err := os.MkdirAll(place.TmpDir(), 0o700)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return proc.Failf(launcher.CauseOurs, filch.Denied, "cannot make the folder of --private-tmp on %s: %s", j.node(), proc.Reason(err)).
			Hint("free space there, or run without --private-tmp")
	}
	j.tmp = dir
	return nil
}

// removeTmp removes the folder beside the keeper's work: the folder may be large. The sweep
// of scratch folders removes a folder whose keeper died first.
func (j *job) removeTmp() {
	if dir := j.tmp; dir != "" {
		j.tmp = ""
		j.keeper.removals.Go(func() { proc.RemoveTree(context.Background(), dir) })
	}
}
