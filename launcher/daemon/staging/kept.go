package staging

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Nodes keep the archives of programs of gangs of tasks (filch submit --bcast): the gangs of a
// job start one after the other, and a node fetches the archive once. An archive is named by
// its sum, so that all jobs with the same program share the archive. The end of a job is known
// to few nodes: archives go by age, and the least recently used when there are too many.

// Limits of kept archives.
const (
	keptBytes = 16 << 30           // of a node, besides archives in use
	keptFor   = 7 * 24 * time.Hour // after the last use
	keptWait  = 10 * time.Second   // for nodes that fetch the archive, too
	keptAsked = 8                  // nodes that are asked beside the parent and the node of the submission
)

// isKept reports whether a name is of a kept archive.
func isKept(name string) bool {
	file, is := strings.CutPrefix(name, launcher.KeptStart)
	return is && launcher.IsCopyFile(strings.TrimSuffix(file, launcher.ArchiveEnd))
}

// keptPath is the path of a kept archive.
func (cs *Copies) keptPath(file string) string {
	return filepath.Join(cs.dir, launcher.KeptArchive(file))
}

// leaveKept notes that a part needs a kept archive no more. The caller holds mu.
func (cs *Copies) leaveKept(file string) {
	if cs.users[file]--; cs.users[file] <= 0 {
		delete(cs.users, file)
	}
}

// bringKept makes sure that a kept archive is here. Of several parts, the first fetches the
// archive, and the others wait.
func (cs *Copies) bringKept(ctx context.Context, a *archive, index int32) error {
	for {
		cs.mu.Lock()
		first := cs.byFile[a.copy.File]
		if first == nil {
			cs.byFile[a.copy.File] = a
		}
		cs.mu.Unlock()
		if first == nil {
			err := cs.fetchKept(ctx, a, index)
			cs.mu.Lock()
			delete(cs.byFile, a.copy.File)
			cs.mu.Unlock()
			return err
		}
		select {
		case <-first.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if first.err != nil && !errors.Is(first.err, context.Canceled) {
			return first.err
		}
	}
}

// fetchKept fetches a kept archive, unless it is here.
func (cs *Copies) fetchKept(ctx context.Context, a *archive, index int32) error {
	if st, err := os.Stat(a.path); err == nil && st.Size() == a.copy.Bytes {
		now := time.Now()
		_ = os.Chtimes(a.path, now, now) // the time of the last use
		return nil
	}
	cs.trimKept(a.copy.Bytes)
	x, err := cs.transfer(a, a.start.Launch.Of.Job)
	if err != nil {
		return err
	}
	defer x.close()
	for began := time.Now(); ; {
		again := false
		var why *filch.Error // of the node of the submission, or of this node
		for _, from := range cs.keptHolders(&a.start.Launch, index) {
			err := x.from(ctx, from)
			if err == nil {
				return nil
			}
			e, told := errors.AsType[*filch.Error](err)
			if ctx.Err() != nil || !told {
				return cmp.Or(ctx.Err(), err)
			}
			// A node that fetches the archive, too, may wait for this node.
			again = again || e.Kind == filch.Unavailable || e.Kind == filch.Busy && time.Since(began) < keptWait
			if why == nil || from == a.copy.From {
				why = e
			}
		}
		if !again {
			return filch.Errorf(filch.NotFound, "no node has the copy that %s made at the submission: %s", a.copy.From, cmp.Or(why, gone()).Error()).
				WithHint("submit the tasks again")
		}
		select { // a launcher may be restarting
		case <-time.After(copyPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gone is the answer of a node without an archive.
func gone() *filch.Error { return filch.Errorf(filch.NotFound, "it is not there") }

// keptHolders are the nodes to ask for a kept archive, in order: the parent in the tree of
// launches, the node of the submission, and some others, which may have run a gang.
func (cs *Copies) keptHolders(l *launcher.Launch, index int32) []filch.NodeName {
	names := cs.files.nodes.Names()
	rand.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	list := []filch.NodeName{l.CopyParent(index), l.Copy.From}
	for _, n := range names[:min(len(names), keptAsked)] {
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	if list[0] == list[1] {
		list = list[1:]
	}
	return slices.DeleteFunc(list, func(n filch.NodeName) bool { return n == cs.in.Self })
}

// readKept reads a part of a kept archive for another node.
func (cs *Copies) readKept(q wire.Fetch) wire.Part {
	missing := wire.Part{Err: gone()}
	if !launcher.IsCopyFile(q.Copy) || q.Copy != launcher.KeptFile(q.Sum) {
		return missing
	}
	f, err := os.Open(cs.keptPath(q.Copy))
	if err != nil {
		return missing
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return missing
	}
	return readPart(f, q.Offset, wire.Part{Size: st.Size(), Sum: q.Sum})
}

// trimKept removes kept archives of which no part here is in need: those without a use for
// keptFor, and the least recently used until there is room for more bytes.
func (cs *Copies) trimKept(more int64) {
	entries, err := os.ReadDir(cs.dir)
	if err != nil {
		cs.in.Fault("cannot look for kept archives", err)
		return
	}
	var list []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && isKept(e.Name()) {
			list = append(list, info)
			more += info.Size()
		}
	}
	slices.SortFunc(list, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range list {
		file := strings.TrimSuffix(strings.TrimPrefix(info.Name(), launcher.KeptStart), launcher.ArchiveEnd)
		cs.mu.Lock()
		used := cs.users[file] > 0
		cs.mu.Unlock()
		if !used && (more > keptBytes || time.Since(info.ModTime()) > keptFor) {
			more -= info.Size()
			cs.erase(filepath.Join(cs.dir, info.Name()))
		}
	}
}
