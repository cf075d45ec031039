package replay

import (
	"os"
	"path/filepath"

	"github.com/filch-hpc/filch/mtc/workflow"
)

// Initial lists the files of a replay that no task writes: they exist before the replay.
func Initial(g *workflow.Graph) []File {
	var files []File
	for i := range g.Files {
		if f := &g.Files[i]; f.Writer < 0 {
			files = append(files, File{f.Path, max(f.Size, 0)})
		}
	}
	return files
}

// Prepare makes the initial files of a replay in a folder.
func Prepare(g *workflow.Graph, dir string) error {
	for _, f := range Initial(g) {
		name := filepath.Join(dir, f.Path)
		part, _, err := write(name, f, nil)
		if err == nil {
			err = os.Rename(part, name)
		}
		if err != nil {
			if part != "" {
				_ = os.Remove(part)
			}
			return err
		}
	}
	return nil
}
