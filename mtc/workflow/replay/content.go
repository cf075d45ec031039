package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
)

// seedBytes is the length of a file's beginning, from which the rest of the file follows.
const seedBytes = 32

// chunk is the number of bytes made, written or read at once.
const chunk = 64 << 10

// Sum is the SHA-256 of a file's content.
type Sum [sha256.Size]byte

// Named is a file's content with its path.
type Named struct {
	Path string
	Sum  Sum
}

// seed is the beginning of a file's content: the seed depends on the file and on all
// inputs of the file's task.
func seed(path string, size int64, inputs []Named) [seedBytes]byte {
	inputs = slices.Clone(inputs)
	slices.SortFunc(inputs, func(a, b Named) int { return strings.Compare(a.Path, b.Path) })
	h := sha256.New()
	field := func(b []byte) { // with the length: no two lists of fields are the same
		_ = binary.Write(h, binary.BigEndian, int64(len(b)))
		_, _ = h.Write(b)
	}
	field([]byte("filch replay 1"))
	field([]byte(path))
	_ = binary.Write(h, binary.BigEndian, size)
	for _, in := range inputs {
		field([]byte(in.Path))
		field(in.Sum[:])
	}
	return [seedBytes]byte(h.Sum(nil))
}

// content is the bytes of a file: the seed, then the output of ChaCha8 for the seed.
type content struct {
	seed   [seedBytes]byte
	rest   *rand.ChaCha8
	at     int64
	length int64
}

func newContent(s [seedBytes]byte, size int64) *content {
	return &content{seed: s, rest: rand.NewChaCha8(s), length: size}
}

func (c *content) Read(p []byte) (int, error) {
	if c.at >= c.length {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), c.length-c.at)]
	n := 0
	if c.at < seedBytes {
		n = copy(p, c.seed[c.at:])
	}
	if n < len(p) {
		_, _ = c.rest.Read(p[n:])
	}
	c.at += int64(len(p))
	return len(p), nil
}

// Make writes the content of an output of a task with these inputs and returns the sum of
// the content. Without inputs the file is an initial file.
func Make(w io.Writer, path string, size int64, inputs []Named) (Sum, error) {
	h := sha256.New()
	_, err := io.CopyBuffer(io.MultiWriter(w, h), newContent(seed(path, size, inputs), size), make([]byte, min(max(size, 1), chunk)))
	return sumOf(h), err
}

func sumOf(h hash.Hash) Sum { return Sum(h.Sum(nil)) }

// Verify reads a file to its end and checks the size, and that all of the content follows
// from the beginning. Only a caller that knows the inputs upstream can check the
// beginning.
func Verify(r io.Reader, size int64) (Sum, error) {
	h := sha256.New()
	var s [seedBytes]byte
	n, err := io.ReadFull(r, s[:min(size, seedBytes)])
	_, _ = h.Write(s[:n])
	if err != nil {
		return sumOf(h), fmt.Errorf("it has %d bytes and should have %d: %w", n, size, err)
	}
	want := newContent(s, size)
	want.at = int64(n)
	room := min(max(size, 1), chunk)
	got, should := make([]byte, room), make([]byte, room)
	for at := int64(n); ; {
		n, err := r.Read(got)
		_, _ = h.Write(got[:n])
		if at+int64(n) > size {
			return sumOf(h), fmt.Errorf("it has more than the %d bytes that it should have", size)
		}
		if _, short := io.ReadFull(want, should[:n]); short != nil || !bytes.Equal(got[:n], should[:n]) {
			return sumOf(h), fmt.Errorf("its content is wrong between bytes %d and %d", at, at+int64(n))
		}
		at += int64(n)
		if err == io.EOF {
			if at != size {
				return sumOf(h), fmt.Errorf("it has %d bytes and should have %d", at, size)
			}
			return sumOf(h), nil
		}
		if err != nil {
			return sumOf(h), err
		}
	}
}
