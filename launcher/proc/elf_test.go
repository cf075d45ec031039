package proc

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"slices"
	"testing"
)

// TestReadELF compares with debug/elf on the programs of this machine.
func TestReadELF(t *testing.T) {
	files := []string{"/proc/self/exe"}
	for _, name := range []string{"sh", "ls", "env", "grep", "tar"} {
		files = append(files, "/bin/"+name)
	}
	for _, name := range files {
		want, err := elf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		libs, err := want.ImportedLibraries()
		if err != nil {
			t.Fatal(err)
		}
		interp := ""
		if s := want.Section(".interp"); s != nil {
			b, _ := s.Data()
			interp = string(bytes.TrimRight(b, "\x00"))
		}
		want.Close()
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, HeadBytes)
		n, _ := f.ReadAt(head, 0)
		got := ReadELF(f, head[:n])
		f.Close()
		if !got.IsELF || got.interp != interp || !slices.Equal(got.Needed, libs) {
			t.Errorf("%s: got %+v, want %q and %v", name, got, interp, libs)
		}
	}
}

// smallELF is a program that needs one library and is otherwise empty. Fuzzing
// shortens each find byte by byte, which takes minutes for a real program.
func smallELF() []byte {
	const heads, dynamic, names, end = 64, 64 + 3*56, 64 + 3*56 + 4*16, 64 + 3*56 + 4*16 + 16
	le := binary.LittleEndian
	b := make([]byte, end)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint64(b[32:], heads)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 3)
	for i, h := range []phdr{{1, 0, 0, end}, {2, dynamic, dynamic, 4 * 16}, {3, names + 7, names + 7, 9}} {
		at := heads + i*56
		le.PutUint32(b[at:], h.kind)
		le.PutUint64(b[at+8:], h.offset)
		le.PutUint64(b[at+16:], h.vaddr)
		le.PutUint64(b[at+32:], h.len)
	}
	for i, d := range [][2]uint64{{5, names}, {10, 16}, {1, 1}, {0, 0}} {
		le.PutUint64(b[dynamic+i*16:], d[0])
		le.PutUint64(b[dynamic+i*16+8:], d[1])
	}
	copy(b[names:], "\x00a.so\x00\x00/lib/ld")
	return b
}

func FuzzReadELF(f *testing.F) {
	small := smallELF()
	if got := ReadELF(bytes.NewReader(small), small); got.interp != "/lib/ld" || !slices.Equal(got.Needed, []string{"a.so"}) {
		f.Fatalf("the seed is read as %+v", got)
	}
	f.Add(small)
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := ReadELF(bytes.NewReader(b), b[:min(len(b), HeadBytes)])
		for _, n := range append(got.Needed, got.interp) {
			if len(n) > len(b) {
				t.Errorf("%d bytes hold a name of %d", len(b), len(n))
			}
		}
	})
}
