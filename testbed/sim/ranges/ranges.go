// Package ranges remembers which ranges of seeds a simulator has run without a
// broken rule, so that a long proof goes on where it stopped. What it remembers
// counts for the very sources that ran: a change of one of the simulated packages
// begins anew.
package ranges

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Ledger is the ranges of one simulator.
type Ledger struct {
	file string
	done map[string]json.RawMessage // by "first+count" or a name: what came out
}

// Open reads the ledger of a simulator for the sources of some packages, given by
// their folders from the root of the module; it is empty for sources that never
// ran. Folders that hold no Go file are an error.
func Open(dir, simulator string, packages ...string) (*Ledger, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	key, err := digest(root, packages)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	l := &Ledger{file: filepath.Join(dir, simulator+"-"+key[:16]+".json"), done: map[string]json.RawMessage{}}
	text, err := os.ReadFile(l.file)
	if os.IsNotExist(err) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l.done)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the seeds that were run before: %w; remove %s to run them again", err, l.file)
	}
	return l, nil
}

// Dir is where ledgers are kept: FILCH_SEED_CACHE, or a folder of the user's cache.
func Dir() (string, error) {
	if dir := os.Getenv("FILCH_SEED_CACHE"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "filch", "seeds"), nil
}

func name(first uint64, count int) string { return fmt.Sprintf("%d+%d", first, count) }

// Done reports whether a range was run, and reads what came out of it.
func (l *Ledger) Done(first uint64, count int, result any) bool {
	return l.Has(name(first, count), result)
}

// Keep writes down that a range broke no rule, and what came out of it.
func (l *Ledger) Keep(first uint64, count int, result any) error {
	return l.Put(name(first, count), result)
}

// Has is Done for a run with a name of its own.
func (l *Ledger) Has(name string, result any) bool {
	text, ok := l.done[name]
	return ok && json.Unmarshal(text, result) == nil
}

// Put is Keep for a run with a name of its own.
func (l *Ledger) Put(name string, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	l.done[name] = text
	all, err := json.MarshalIndent(l.done, "", "\t")
	if err != nil {
		return err
	}
	part := l.file + ".part"
	if err := os.WriteFile(part, all, 0o644); err != nil {
		return err
	}
	return os.Rename(part, l.file)
}

// moduleRoot is the folder of go.mod, above the one where the test runs.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod in %s or above", dir)
		}
	}
}

// digest is of the Go files of some folders but for their tests, of go.mod, and of
// the compiler.
func digest(root string, packages []string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH)
	files := []string{"go.mod"}
	for _, p := range packages {
		entries, err := fs.Glob(os.DirFS(root), p+"/*.go")
		if p == "." {
			entries, err = fs.Glob(os.DirFS(root), "*.go")
		}
		if err != nil {
			return "", err
		}
		entries = slices.DeleteFunc(entries, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		if len(entries) == 0 {
			return "", fmt.Errorf("no Go file in %s", filepath.Join(root, p))
		}
		files = append(files, entries...)
	}
	slices.Sort(files)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, f, len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
