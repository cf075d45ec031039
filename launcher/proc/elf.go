package proc

import (
	"bytes"
	"encoding/binary"
	"io"
)

// What is read of an ELF file, at most: a program whose tables are larger is
// taken as one that says nothing.
const (
	elfPhdrsMax   = 128
	elfDynamicMax = 16 << 10
	elfNeededMax  = 256
	elfNameMax    = 4096
)

// binaryInfo is what an executable says of itself.
type binaryInfo struct {
	elf    bool
	interp string   // the ELF interpreter
	needed []string // DT_NEEDED

	rpath, runpath string
}

type phdr struct {
	kind               uint32
	offset, vaddr, len uint64
}

// readELF reads the interpreter and the needed libraries of a little-endian
// 64-bit ELF file with a few small reads: debug/elf reads all section headers
// as well, and this is on the path of every launch. What does not make sense
// is left out; the kernel judges when it executes the file.
func readELF(f io.ReaderAt, head []byte) binaryInfo {
	info := binaryInfo{elf: bytes.HasPrefix(head, []byte("\x7fELF"))}
	if !info.elf || len(head) < 64 || head[4] != 2 || head[5] != 1 {
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
			text, _, _ := bytes.Cut(readSome(f, head, h.offset, int(min(h.len, elfNameMax))), []byte{0})
			info.interp = string(text)
		}
	}
	info.readDynamic(f, head, dynamic, loads)
	return info
}

// readDynamic follows the dynamic section to its names.
func (info *binaryInfo) readDynamic(f io.ReaderAt, head []byte, dynamic phdr, loads []phdr) {
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
		text, _, ok := bytes.Cut(readSome(f, head, at+o, int(min(length-o, elfNameMax))), []byte{0})
		return string(text), ok
	}
	for _, o := range offsets {
		if text, ok := name(o); ok {
			info.needed = append(info.needed, text)
		}
	}
	if rpath > 0 {
		info.rpath, _ = name(rpath)
	}
	if runpath > 0 {
		info.runpath, _ = name(runpath)
	}
}

// readSome returns up to n bytes at off, from head where it holds them.
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
