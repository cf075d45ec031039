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

// The helper as `make build` made it, if it could, and its source.
//
//go:embed payload pmixd
var carried embed.FS

const (
	payloadName = "payload/pmixd"
	sourceDir   = "pmixd"
)

// Carried reports whether this binary carries a pmixd that is ready to run.
func Carried() bool {
	f, err := carried.Open(payloadName)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// NotBuilt is the exit code of a command of [Command] that could not compile
// pmixd; its standard error says in one line what is missing.
const NotBuilt = 3

// Command is what to execute for a helper, in a folder of this user for
// programs: what is there already, by the hash of its content; what this binary
// carries; else a shell that compiles it there, once, and becomes it.
func Command(dir string) (argv []string, err error) {
	if body, err := carried.ReadFile(payloadName); err == nil {
		path, err := place.Install(dir, "pmixd", body)
		return []string{path}, err
	}
	return compiled(dir)
}

// compiled is the command for one that is compiled in dir, now or earlier.
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

// source is the files of pmixd, and a hash of all.
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
