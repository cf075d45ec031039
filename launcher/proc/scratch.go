package proc

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// scratch is where libpmix and the ranks of Open MPI may leave files: session
// folders and segments of shared memory. It belongs to one job on one node, so
// that whatever is killed, and whoever cleans up after it, one removal does it.
// The names tell the keeper, whose death a sweep sees.
type scratch struct {
	dir string // for files
	shm string // for segments, "" where there is no /dev/shm
}

const shmPrefix = "/dev/shm/filch-"

// scratches is the part of the names that all keepers of a place share.
func scratches(p Place) scratch {
	h := fnv.New64a()
	h.Write([]byte(p.Dir))
	return scratch{
		dir: filepath.Join(p.Dir, "pmix") + "/",
		shm: fmt.Sprintf("%s%d-%016x-", shmPrefix, os.Getuid(), h.Sum64()),
	}
}

func newScratch(k *keeper) scratch {
	s := scratches(k.place)
	k.scratches++
	word := fmt.Sprintf("%d.%d", os.Getpid(), k.scratches)
	return scratch{s.dir + word, s.shm + word}
}

// make makes the folders; without /dev/shm ranks use files.
func (s *scratch) make() error {
	os.RemoveAll(s.dir)
	if err := os.MkdirAll(filepath.Join(s.dir, "ns"), 0o700); err != nil {
		return err
	}
	os.RemoveAll(s.shm)
	if os.Mkdir(s.shm, 0o700) != nil {
		s.shm = ""
	}
	return nil
}

func (s *scratch) remove() {
	os.RemoveAll(s.dir)
	if s.shm != "" {
		os.RemoveAll(s.shm)
	}
}

// removeScratch removes what keepers of this place left that are dead.
func removeScratch(p Place) {
	s := scratches(p)
	inDirs, _ := filepath.Glob(s.dir + "*")
	inShm, _ := filepath.Glob(s.shm + "*")
	inCopies, _ := os.ReadDir(p.copiesDir())
	if len(inDirs)+len(inShm)+len(inCopies) == 0 {
		return
	}
	keepers := livingKeepers(p)
	dead := func(word string) bool {
		word, _, _ = strings.Cut(word, ".")
		pid, err := strconv.Atoi(word)
		return err == nil && !keepers[pid] && pid != os.Getpid()
	}
	for _, e := range inCopies {
		if e.IsDir() && dead(e.Name()) { // what is no folder are the launcher's archives
			removeCopy(p, e.Name())
		}
	}
	for _, name := range append(inDirs, inShm...) {
		if dead(strings.TrimPrefix(strings.TrimPrefix(name, s.dir), s.shm)) {
			os.RemoveAll(name)
		}
	}
}
