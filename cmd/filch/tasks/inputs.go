package tasks

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// sumsMax bounds the bytes of input files that are read before a workflow starts.
const sumsMax = 512 << 20

// marks are the marks of all tasks. Of the files that no task writes, the smallest are
// hashed, up to sumsMax bytes; the others are known by size and time of change.
func (f *runFlags) marks(w *workflow.Graph) ([]workflow.Mark, error) {
	type input struct {
		file  int32
		size  int64
		mtime time.Time
	}
	var inputs []input
	start, _ := w.Readers()
	for i := range w.Files {
		if w.Files[i].Writer >= 0 || start[i] == start[i+1] {
			continue
		}
		in := input{file: int32(i), size: w.Files[i].Size}
		if !w.Replay {
			st, err := os.Stat(filepath.Join(f.folder, w.Files[i].Path))
			if err != nil {
				return nil, filch.Errorf(filch.NotFound, "cannot read the input %q: %s", w.Files[i].Path, ui.Cause(err))
			}
			in.size, in.mtime = st.Size(), st.ModTime()
		}
		inputs = append(inputs, in)
	}
	slices.SortFunc(inputs, func(a, b input) int { return cmp.Compare(a.size, b.size) })
	sums, read := map[int32][]byte{}, int64(0)
	for _, in := range inputs {
		if read += in.size; w.Replay || read > sumsMax {
			sums[in.file] = fmt.Appendf(nil, "%d %d", in.size, in.mtime.UnixNano())
			continue
		}
		sum, err := hashFile(filepath.Join(f.folder, w.Files[in.file].Path))
		if err != nil {
			return nil, filch.Errorf(filch.Denied, "cannot read the input %q: %s", w.Files[in.file].Path, ui.Cause(err))
		}
		sums[in.file] = sum
	}
	return w.Marks(func(file int32) []byte { return sums[file] }), nil
}

func hashFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}
