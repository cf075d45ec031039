package proc

import (
	"os"
	"path/filepath"
)

// CopiesDir holds the copied programs and their archives.
func (p Place) CopiesDir() string { return filepath.Join(p.Dir, "bcast") }

func RemoveCopy(p Place, name string) {
	if root, err := os.OpenRoot(p.CopiesDir()); err == nil {
		_ = root.RemoveAll(name)
		root.Close()
	}
}

// LibsOf is the folder of the libraries copied with program. The folder stands beside the
// copy.
func LibsOf(program string) string { return program + "_libs" }
