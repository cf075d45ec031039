package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/mtc/workflow/yaml"
)

// maxFile bounds a file of settings.
const maxFile = 64 << 10

// file is a file of settings.
type file struct {
	path   string
	values map[string]any // texts
	lines  map[string]int
}

// readFile reads a file of settings in YAML; nil when it does not exist. An
// unknown or repeated key is refused with the line of the key.
func readFile(path string) (*file, error) {
	text, err := readOwn(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	asJSON, line, err := yaml.JSON(text)
	if err != nil {
		return nil, badFile(path, line, "%s", err.Error())
	}
	f := &file{path: path, values: map[string]any{}, lines: map[string]int{}}
	dec := json.NewDecoder(bytes.NewReader(asJSON))
	dec.UseNumber()
	here := func() int { return 1 + bytes.Count(asJSON[:dec.InputOffset()], []byte("\n")) }
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return nil, badFile(path, here(), "the file has no settings like \"slots: 4\"")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		at := here()
		value, err := dec.Token()
		if err != nil {
			return nil, err
		}
		if err := f.add(fmt.Sprint(key), value, at); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *file) add(key string, value json.Token, line int) error {
	s := findSetting(key)
	if s == nil {
		err := badFile(f.path, line, "there is no setting %s", strconv.Quote(key))
		if near := filch.Nearest(key, slices.Values(settingKeys()), 3); near != "" {
			return err.WithHint("did you mean %s?", near)
		}
		return err.WithHint("known are %s", strings.Join(settingKeys(), ", "))
	}
	if first, twice := f.lines[key]; twice {
		return badFile(f.path, line, "%s is there twice: also on line %d", key, first)
	}
	switch value.(type) {
	case json.Delim, nil:
		return badFile(f.path, line, "%s has no value", key)
	}
	text := fmt.Sprint(value)
	if err := s.check(text); err != nil {
		return badFile(f.path, line, "%s", err.Error())
	}
	f.values[key], f.lines[key] = text, line
	return nil
}

// badFile returns an error at a line, 0 for the whole file.
func badFile(path string, line int, format string, args ...any) *filch.Error {
	if line > 0 {
		path += ":" + strconv.Itoa(line)
	}
	return filch.Errorf(filch.Invalid, "%s: %s", path, fmt.Sprintf(format, args...))
}

// readOwn reads a small file that nobody except root and the user can have written.
func readOwn(path string) ([]byte, error) {
	fd, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot read the settings %s: %s", path, place.Cause(err))
	}
	defer fd.Close()
	var s unix.Stat_t
	if err := unix.Fstat(int(fd.Fd()), &s); err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot read %s: %s", path, place.Cause(err))
	}
	switch {
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, filch.Errorf(filch.Denied, "cannot read %s: it is not a file", path)
	case s.Uid != 0 && int(s.Uid) != os.Getuid():
		return nil, filch.Errorf(filch.Denied, "cannot use %s: it belongs to uid %d, not to root or %d", path, s.Uid, os.Getuid())
	case s.Mode&0o022 != 0:
		return nil, filch.Errorf(filch.Denied, "cannot use %s: its mode is %04o, other users may write it", path, s.Mode&0o7777).
			WithHint("chmod go-w %s", path)
	}
	b, err := io.ReadAll(io.LimitReader(fd, maxFile+1))
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot read %s: %s", path, place.Cause(err))
	}
	if len(b) > maxFile {
		return nil, badFile(path, 0, "the file has more than %d bytes", maxFile)
	}
	return b, nil
}
