package proc

import (
	"bytes"
	"encoding/binary"
	"io"
)

// Bounds on the parts of an ELF file that are read. A program with larger tables is taken
// as a program without an interpreter and without needed libraries.
const (
	elfPhdrsMax   = 128
	elfDynamicMax = 16 << 10
	elfNeededMax  = 256
	ELFNameMax    = 4096
)

// Binary is the header data of an executable.
type Binary struct {
	IsELF  bool
	interp string   // the ELF interpreter
	Needed []string // DT_NEEDED

	RPath, RunPath string
}

type phdr struct {
	kind               uint32
	offset, vaddr, len uint64
}

// ReadELF reads the interpreter and the needed libraries of a little-endian 64-bit ELF
// file with a few small reads: debug/elf reads all section headers as well, and this is
// on the path of every launch. ReadELF leaves out malformed parts; the kernel judges the
// file at the exec.
func ReadELF(f io.ReaderAt, head []byte) Binary {
	info := Binary{IsELF: bytes.HasPrefix(head, []byte("\x7fELF"))}
	if !info.IsELF || len(head) < 64 || head[4] != 2 || head[5] != 1 {
		return info
	}
	le := binary.LittleEndian
	off, size, count := le.Uint64(head[32:]), int(le.Uint16(head[54:])), int(le.Uint16(head[56:]))
	if size != 56 || count > elfPhdrsMax {
		return info
	}
	table := readSome(f, head, off, size*count)
	var loads []phdr
	var dynamic phdr
	for ; len(table) >= size; table = table[size:] {
		h := phdr{le.Uint32(table), le.Uint64(table[8:]), le.Uint64(table[16:]), le.Uint64(table[32:])}
		switch h.kind {
		case 1: // PT_LOAD
			loads = append(loads, h)
		case 2: // PT_DYNAMIC
			dynamic = h
		case 3: // PT_INTERP
			text, _, _ := bytes.Cut(readSome(f, head, h.offset, int(min(h.len, ELFNameMax))), []byte{0})
			info.interp = string(text)
		}
	}
	info.readDynamic(f, head, dynamic, loads)
	return info
}

// readDynamic reads the library names of the dynamic section.
func (info *Binary) readDynamic(f io.ReaderAt, head []byte, dynamic phdr, loads []phdr) {
	le := binary.LittleEndian
	var offsets []uint64
	var strings, length, rpath, runpath uint64
	for d := readSome(f, head, dynamic.offset, int(min(dynamic.len, elfDynamicMax))); len(d) >= 16; d = d[16:] {
		tag, value := le.Uint64(d), le.Uint64(d[8:])
		if tag == 0 {
			break
		}
		switch {
		case tag == 1 && len(offsets) < elfNeededMax: // DT_NEEDED
			offsets = append(offsets, value)
		case tag == 5: // DT_STRTAB, an address
			strings = value
		case tag == 10: // DT_STRSZ
			length = value
		case tag == 15: // DT_RPATH
			rpath = value
		case tag == 29: // DT_RUNPATH
			runpath = value
		}
	}
	at, found := uint64(0), false
	for _, l := range loads {
		if strings >= l.vaddr && strings-l.vaddr < l.len {
			at, found = l.offset+(strings-l.vaddr), true
		}
	}
	if !found {
		return
	}
	name := func(o uint64) (string, bool) {
		if o >= length {
			return "", false
		}
		text, _, ok := bytes.Cut(readSome(f, head, at+o, int(min(length-o, ELFNameMax))), []byte{0})
		return string(text), ok
	}
	for _, o := range offsets {
		if text, ok := name(o); ok {
			info.Needed = append(info.Needed, text)
		}
	}
	if rpath > 0 {
		info.RPath, _ = name(rpath)
	}
	if runpath > 0 {
		info.RunPath, _ = name(runpath)
	}
}

// readSome returns up to n bytes at off, from head where head holds the range.
func readSome(f io.ReaderAt, head []byte, off uint64, n int) []byte {
	if n <= 0 || off > 1<<62 {
		return nil
	}
	if end := off + uint64(n); end <= uint64(len(head)) {
		return head[off:end]
	}
	b := make([]byte, n)
	got, _ := f.ReadAt(b, int64(off))
	return b[:got]
}
