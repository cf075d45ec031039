package keeper

import (
	"fmt"
	"os"

	"github.com/filch-hpc/filch/launcher/proc"
)

func newScratch(k *keeper) proc.Scratch {
	s := proc.ScratchPrefix(k.place)
	k.scratches++
	word := fmt.Sprintf("%d.%d", os.Getpid(), k.scratches)
	return proc.Scratch{Dir: s.Dir + word, Shm: s.Shm + word}
}
