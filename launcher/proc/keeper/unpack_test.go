package keeper

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

// entry is one of an archive.
type entry struct {
	name string
	kind byte
	link string
	data string
	size int64 // claimed, instead of that of data
}

func archiveOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.data)), Mode: 0o777}
		if e.size > 0 {
			h.Size = e.size
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
		if e.size > 0 {
			return b.Bytes() // its end is missing
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reg(name, data string) entry { return entry{name: name, kind: tar.TypeReg, data: data} }

func goOn() bool { return false }

// unpackHere unpacks into a new folder, of which it returns all files.
func unpackHere(t testing.TB, archive []byte, most int64) (files map[string]string, libs bool, err error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "into")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	libs, err = unpack(bytes.NewReader(archive), root, "prog", most, goOn)
	files = map[string]string{}
	above, werr := os.ReadDir(filepath.Dir(dir))
	if werr != nil || len(above) != 1 {
		t.Errorf("beside the folder there is %v, %v", above, werr)
	}
	werr = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			t.Errorf("%s was made, of type %v", path, d.Type())
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(b)
		return err
	})
	if werr != nil {
		t.Fatal(werr)
	}
	return files, libs, err
}

func TestUnpackTakesAProgramWithItsLibraries(t *testing.T) {
	a := archiveOf(t, reg("prog", "#!/bin/sh\n"), reg("prog_libs/libodd.so", "odd"), reg("prog_libs/libeven.so.1", ""))
	files, libs, err := unpackHere(t, a, int64(len(a)))
	if err != nil || !libs || len(files) != 3 || files["prog"] != "#!/bin/sh\n" || files["prog_libs/libodd.so"] != "odd" {
		t.Errorf("got %q, libs %v, %v", files, libs, err)
	}
	files, libs, err = unpackHere(t, archiveOf(t, reg("prog", "x")), 1)
	if err != nil || libs || len(files) != 1 {
		t.Errorf("alone: got %q, libs %v, %v", files, libs, err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	many := []entry{reg("prog", "")}
	for i := range launcher.MaxCopyFiles {
		many = append(many, reg(fmt.Sprintf("prog_libs/l%d", i), ""))
	}
	for name, c := range map[string]struct {
		entries []entry
		most    int64
		want    string
	}{
		"a-link":             {[]entry{{name: "prog", kind: tar.TypeSymlink, link: "/etc/passwd"}}, 1000, "is not a file"},
		"a-hard-link":        {[]entry{reg("prog", "x"), {name: "prog_libs/a", kind: tar.TypeLink, link: "prog"}}, 1000, "is not a file"},
		"a-folder":           {[]entry{{name: "prog", kind: tar.TypeDir}}, 1000, "is not a file"},
		"libs-as-a-link":     {[]entry{{name: "prog_libs", kind: tar.TypeSymlink, link: "/tmp"}, reg("prog_libs/a", "x")}, 1000, "is not a file"},
		"a-device":           {[]entry{{name: "prog", kind: tar.TypeChar}}, 1000, "is not a file"},
		"a-pipe":             {[]entry{{name: "prog", kind: tar.TypeFifo}}, 1000, "is not a file"},
		"the-folder-above":   {[]entry{reg("../prog", "x")}, 1000, "neither the program nor a library"},
		"above-through-libs": {[]entry{reg("prog_libs/../../prog", "x")}, 1000, "neither the program nor a library"},
		"libs-dots":          {[]entry{reg("prog_libs/..", "x")}, 1000, "neither the program nor a library"},
		"absolute":           {[]entry{reg("/tmp/prog", "x")}, 1000, "neither the program nor a library"},
		"another-name":       {[]entry{reg("prog2", "x")}, 1000, "neither the program nor a library"},
		"deeper":             {[]entry{reg("prog_libs/a/b", "x")}, 1000, "neither the program nor a library"},
		"a-long-name":        {[]entry{reg("prog_libs/"+strings.Repeat("x", 300), "x")}, 1000, "neither the program nor a library"},
		"twice":              {[]entry{reg("prog", "x"), reg("prog", "y")}, 1000, "twice"},
		"too-large":          {[]entry{reg("prog", "12345678")}, 7, "more than are left"},
		"too-large-in-all":   {[]entry{reg("prog", "1234"), reg("prog_libs/a", "5678")}, 7, "more than are left"},
		"claims-to-be-large": {[]entry{{name: "prog", kind: tar.TypeReg, data: "x", size: 1 << 40}}, 1 << 20, "more than are left"},
		"cut-off":            {[]entry{{name: "prog", kind: tar.TypeReg, data: "x", size: 100}}, 1000, "EOF"},
		"too-many":           {many, 1 << 20, "more than 1024 files"},
		"nothing":            {nil, 1000, "has no \"prog\""},
		"libraries-only":     {[]entry{reg("prog_libs/a", "x")}, 1000, "has no \"prog\""},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := unpackHere(t, archiveOf(t, c.entries...), c.most)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, _, err := unpackHere(t, []byte("this is no archive"), 100); err == nil {
		t.Error("what is no archive was taken")
	}
}

func TestUnpackStops(t *testing.T) {
	a := archiveOf(t, reg("prog", strings.Repeat("x", 3*unpackChunk)))
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := unpack(bytes.NewReader(a), root, "prog", int64(len(a)), func() bool { return true }); err == nil {
		t.Error("it went on")
	}
	if st, err := root.Stat("prog"); err != nil || st.Size() != unpackChunk {
		t.Errorf("got %v, %v, want one piece of %d bytes", st, err, unpackChunk)
	}
}

// FuzzUnpack: whatever the archive is, nothing appears outside of the folder, and
// nothing but files of at most the allowed size in it.
func FuzzUnpack(f *testing.F) {
	f.Add(archiveOf(f, reg("prog", "x"), reg("prog_libs/a", "y")))
	f.Add(archiveOf(f, entry{name: "prog", kind: tar.TypeSymlink, link: "/etc"}))
	f.Add(archiveOf(f, reg("../prog", "x")))
	f.Add(archiveOf(f, reg("prog_libs/"+strings.Repeat("x", 150), "x")))
	f.Fuzz(func(t *testing.T, archive []byte) {
		files, _, err := unpackHere(t, archive, int64(len(archive)))
		sum := 0
		for name, text := range files {
			if lib, ok := strings.CutPrefix(name, "prog_libs/"); name != "prog" && (!ok || strings.Contains(lib, "/")) {
				t.Errorf("%q was made", name)
			}
			sum += len(text)
		}
		if sum > len(archive) {
			t.Errorf("%d bytes came out of %d", sum, len(archive))
		}
		if err == nil && files["prog"] == "" {
			if _, there := files["prog"]; !there {
				t.Error("the program is missing, and nothing was said")
			}
		}
	})
}

// copyTo unpacks an archive to a place that the user has named.
func copyTo(t *testing.T, dest string, entries ...entry) error {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.tar")
	a := archiveOf(t, entries...)
	if err := os.WriteFile(name, a, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &copied{what: &launcher.Copy{Name: "prog", Dest: dest, Bytes: int64(len(a))}}
	_, err := c.unpack(name, "")
	left, _ := filepath.Glob(filepath.Join(dest, ".filch-bcast-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return err
}

func TestCopyReplacesALinkAtItsPlace(t *testing.T) {
	dest, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dest, "prog")); err != nil {
		t.Fatal(err)
	}
	if err := copyTo(t, dest, reg("prog", "new")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(victim); string(b) != "precious" {
		t.Errorf("what the link led to holds %q, %v", b, err)
	}
	if st, err := os.Lstat(filepath.Join(dest, "prog")); err != nil || !st.Mode().IsRegular() || st.Mode().Perm() != 0o700 {
		t.Errorf("at its place is %v, %v", st, err)
	}
}

// What is no file at the place of the program stays: root would replace a device.
func TestCopyLeavesPipesAlone(t *testing.T) {
	dest := t.TempDir()
	pipe := filepath.Join(dest, "prog")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyTo(t, dest, reg("prog", "new")); err == nil || !strings.Contains(err.Error(), "is there and is no file") {
		t.Errorf("a copy to a pipe says %v", err)
	}
	if st, err := os.Lstat(pipe); err != nil || st.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("at its place is %v, %v", st, err)
	}
}

func TestCopyRefusesLibrariesThatOthersCanChange(t *testing.T) {
	parts := []entry{reg("prog", "new"), reg("prog_libs/a.so", "lib")}
	t.Run("a-link", func(t *testing.T) {
		dest, elsewhere := t.TempDir(), t.TempDir()
		if err := os.Symlink(elsewhere, filepath.Join(dest, "prog_libs")); err != nil {
			t.Fatal(err)
		}
		if err := copyTo(t, dest, parts...); err == nil {
			t.Error("the link was followed")
		}
		if e, _ := os.ReadDir(elsewhere); len(e) > 0 {
			t.Errorf("written where the link leads: %v", e)
		}
	})
	t.Run("again", func(t *testing.T) {
		dest := t.TempDir()
		for range 2 {
			if err := copyTo(t, filepath.Join(dest, "new/folder"), parts...); err != nil {
				t.Fatal(err)
			}
		}
	})
}
