package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// segmentMax bounds a file's name on the file systems in use.
const segmentMax = 255

// CheckPath returns an error if path may not be a file of a task's sandbox. The path must
// be relative, stay inside, have its shortest form, and contain no control character but
// tabs and line ends.
func CheckPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("it is empty")
	case len(path) > PathMax:
		return fmt.Errorf("it has %d bytes, at most %d", len(path), PathMax)
	case path[0] == '/':
		return fmt.Errorf("it is absolute: files of a workflow are named relative to its folder")
	case !utf8.ValidString(path):
		return fmt.Errorf("it is not UTF-8")
	}
	for _, r := range path {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return fmt.Errorf("it holds the control character %U", r)
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "..":
			return fmt.Errorf("its .. leaves the sandbox")
		case segment == "" || segment == ".":
			return fmt.Errorf("it is not in its shortest form")
		case len(segment) > segmentMax:
			return fmt.Errorf("a part of it has %d bytes, at most %d", len(segment), segmentMax)
		}
	}
	return nil
}

// flatten makes the name of a replay's file from the file's id in the workflow. Ids in
// real files contain slashes, colons and brackets; a file of a replay is a single name in
// a single folder. A changed name gets a part of the id's hash, so that two ids never
// share a name.
func flatten(origin string) string {
	const kept = 180
	safe := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._+=@,-", c) >= 0
	}
	plain := origin != "" && len(origin) <= kept && origin[0] != '.' && origin[0] != '-'
	for i := 0; plain && i < len(origin); i++ {
		plain = safe(origin[i])
	}
	if plain {
		return origin
	}
	b := []byte(origin)
	if len(b) > kept {
		b = b[len(b)-kept:]
	}
	for i := range b {
		if !safe(b[i]) {
			b[i] = '_'
		}
	}
	sum := sha256.Sum256([]byte(origin))
	return "f" + strings.TrimLeft(string(b), "_.-") + "~" + hex.EncodeToString(sum[:6])
}
