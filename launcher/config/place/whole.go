package place

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"syscall"
)

// writeWhole makes or replaces a file by a file with these bytes and this mode, whole
// or not at all. WriteWhole writes a program while nothing is forked: a child would
// hold the program open for writing, and nobody could run the program.
func writeWhole(path string, b []byte, mode os.FileMode) error {
	if mode&0o111 != 0 {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600, O_EXCL
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if e := f.Chmod(mode); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Install writes a program to dir under its name and a hash of its content, unless the
// file exists, and returns the path.
func Install(dir, name string, program []byte) (string, error) {
	if path := Installed(dir, name, program); path != "" {
		return path, nil
	}
	path := installed(dir, name, program)
	return path, writeWhole(path, program, 0o700)
}

// Installed returns the path of a program that [Install] has written, "" if the program is absent.
func Installed(dir, name string, program []byte) string {
	path := installed(dir, name, program)
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(program)) || info.Mode()&0o100 == 0 {
		return ""
	}
	return path
}

// InstallPacked is [Install] for a compressed program, under the hash of the compressed
// bytes: a program that is there already is not unpacked again.
func InstallPacked(dir, name string, packed []byte, unpack func([]byte) ([]byte, error)) (string, error) {
	path := installed(dir, name, packed)
	if info, err := os.Stat(path); err == nil && info.Size() > 0 && info.Mode()&0o100 != 0 {
		return path, nil
	}
	program, err := unpack(packed)
	if err != nil {
		return path, err
	}
	return path, writeWhole(path, program, 0o700)
}

func installed(dir, name string, content []byte) string {
	sum := sha256.Sum256(content)
	return filepath.Join(dir, name+"-"+hex.EncodeToString(sum[:8]))
}
