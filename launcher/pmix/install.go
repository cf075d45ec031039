package pmix

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/filch-hpc/filch/launcher/config/place"
)

// The helper as built by `make build`, if compiled there, and the source of the helper.
//
//go:embed payload pmixd
var carried embed.FS

const (
	payloadName = "payload/pmixd"
	sourceDir   = "pmixd"
)

// NotBuilt is the exit code of a command of [Command] that could not compile pmixd; a
// line on its standard error names the missing part.
const NotBuilt = 3

// Command returns the command line of a helper, in dir, a folder of this user for
// programs: a pmixd already there, by the hash of the content; else the pmixd carried by
// this binary; else a shell that compiles pmixd there, once, and then executes pmixd.
func Command(dir string) (argv []string, err error) {
	if body, err := carried.ReadFile(payloadName); err == nil {
		path, err := place.Install(dir, "pmixd", body)
		return []string{path}, err
	}
	return compiled(dir)
}

// compiled is the command for a pmixd compiled in dir, now or earlier.
func compiled(dir string) (argv []string, err error) {
	sources, sum, err := source()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "pmixd-"+sum)
	if _, err := os.Stat(path); err == nil {
		return []string{path}, nil
	}
	work, err := os.MkdirTemp(dir, ".pmixd-")
	if err != nil {
		return nil, err
	}
	for name, body := range sources {
		if err := os.WriteFile(filepath.Join(work, name), body, 0o600); err != nil {
			os.RemoveAll(work)
			return nil, err
		}
	}
	const script = `sh "$0/build" "$1"; code=$?; rm -rf "$0"; [ $code = 0 ] || exit 3; exec "$1"`
	return []string{"/bin/sh", "-c", script, work, path}, nil
}

// source returns the files of pmixd, and a hash of all files.
func source() (map[string][]byte, string, error) {
	files := map[string][]byte{}
	var names []string
	err := fs.WalkDir(carried, sourceDir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := carried.ReadFile(name)
		files[d.Name()] = body
		names = append(names, d.Name())
		return err
	})
	slices.Sort(names)
	h := sha256.New()
	for _, n := range names {
		fmt.Fprintf(h, "%s %d\n", n, len(files[n]))
		h.Write(files[n])
	}
	return files, hex.EncodeToString(h.Sum(nil)[:8]), err
}
