package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// store keeps the brain's records, one small file per key, written beside and
// renamed: after the launcher dies each is whole, old or new. It survives the
// launcher, not the machine: nothing is synced, since what it is for (jobs
// that still run here) does not outlive the machine either.
type store struct {
	dir string
}

// Limits of the store.
const (
	maxRecord  = wire.MaxFrame
	maxRecords = 1 << 20
	maxKey     = 200
	recordExt  = ".rec"
)

func openStore(dir string) (*store, error) {
	s := &store{dir: dir}
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil {
		return nil, err
	}
	for _, name := range left {
		_ = os.Remove(name)
	}
	return s, nil
}

// put writes a record, or removes one that has no body.
func (s *store) put(r *launcher.Record) error {
	path, err := s.path(r.Key)
	if err != nil {
		return err
	}
	if r.Job == nil && r.Part == nil && r.IDs == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := wire.Marshal(r)
	if err != nil {
		return err
	}
	if len(b) > maxRecord {
		return fmt.Errorf("record of %d bytes, the limit is %d", len(b), maxRecord)
	}
	temp := filepath.Join(s.dir, ".new-"+filepath.Base(path))
	if err := os.WriteFile(temp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// path of a key. Keys are the brain's own: letters, digits and a few signs.
func (s *store) path(key string) (string, error) {
	if key == "" || len(key) > maxKey || strings.ContainsAny(key, "\x00\\") || strings.HasPrefix(key, ".") {
		return "", fmt.Errorf("record with the key %q", key)
	}
	return filepath.Join(s.dir, strings.ReplaceAll(key, "/", "_")+recordExt), nil
}

// load reads all records, in order of their files' names. One that cannot be
// read is set aside and told; it never keeps a launcher from starting.
func (s *store) load() ([]launcher.Record, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var all []launcher.Record
	var bad []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), recordExt) || len(all) >= maxRecords {
			continue
		}
		r, err := s.read(filepath.Join(s.dir, e.Name()))
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", e.Name(), err))
			name := filepath.Join(s.dir, e.Name())
			_ = os.Rename(name, strings.TrimSuffix(name, recordExt)+".bad")
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(bad...)
}

func (s *store) read(path string) (launcher.Record, error) {
	var r launcher.Record
	info, err := os.Stat(path)
	if err != nil {
		return r, err
	}
	if info.Size() > maxRecord {
		return r, fmt.Errorf("%d bytes, the limit is %d", info.Size(), maxRecord)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, wire.Unmarshal(b, &r)
}
