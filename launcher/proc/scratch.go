package proc

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Scratch is where libpmix and the ranks of Open MPI may leave files: session folders and
// segments of shared memory. A Scratch belongs to a single job on a single node:
// whichever process was killed, a single removal cleans up. The names hold the keeper's
// process id, so a sweep can see that the keeper is dead.
type Scratch struct {
	Dir string // for files
	Shm string // for segments, "" where there is no /dev/shm
}

const shmPrefix = "/dev/shm/filch-"

// ScratchPrefix is the part of the names that all keepers of a place share.
func ScratchPrefix(p Place) Scratch {
	h := fnv.New64a()
	h.Write([]byte(p.Dir))
	return Scratch{
		Dir: filepath.Join(p.Dir, "pmix") + "/",
		Shm: fmt.Sprintf("%s%d-%016x-", shmPrefix, os.Getuid(), h.Sum64()),
	}
}

// Make makes the folders; without /dev/shm ranks use files.
func (s *Scratch) Make() error {
	os.RemoveAll(s.Dir)
	if err := os.MkdirAll(filepath.Join(s.Dir, "ns"), 0o700); err != nil {
		return err
	}
	os.RemoveAll(s.Shm)
	if os.Mkdir(s.Shm, 0o700) != nil {
		s.Shm = ""
	}
	return nil
}

func (s *Scratch) Remove() {
	os.RemoveAll(s.Dir)
	if s.Shm != "" {
		os.RemoveAll(s.Shm)
	}
}

// removeScratch removes the folders and copies of dead keepers of this place. Folders of
// other users, who may write to /dev/shm, stay.
func removeScratch(p Place) {
	s := ScratchPrefix(p)
	dirs, _ := filepath.Glob(s.Dir + "*")
	inShm, _ := filepath.Glob(s.Shm + "*")
	inTmp, _ := filepath.Glob(filepath.Join(p.TmpDir(), tmpPrefix+"*"))
	dirs = append(append(dirs, inShm...), inTmp...)
	inCopies, _ := os.ReadDir(p.CopiesDir())
	if len(dirs)+len(inCopies) == 0 {
		return
	}
	keepers := LivingKeepers(p)
	dead := func(name string) bool {
		pid, ok := keeperOf(name)
		return ok && !keepers[pid] && pid != os.Getpid()
	}
	for _, e := range inCopies {
		if e.IsDir() && dead(e.Name()) { // files are the launcher's archives
			RemoveCopy(p, e.Name())
		}
	}
	for _, dir := range dirs {
		if dead(filepath.Base(dir)) && isOurs(dir) {
			RemoveTree(context.Background(), dir)
		}
	}
}

// isOurs reports whether path, itself and not the target of a link, belongs to this user.
func isOurs(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && int(st.Uid) == os.Getuid()
}
