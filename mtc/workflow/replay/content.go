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

// seedBytes is the beginning of a file, from which the rest of it follows.
const seedBytes = 32

// chunk is how much is made, written or read at once.
const chunk = 64 << 10

// Sum is the SHA-256 of a file's content.
type Sum [sha256.Size]byte

// Named is a file's content with its path.
type Named struct {
	Path string
	Sum  Sum
}

// seed is where the content of a file begins: it depends on the file and on
// all that was read by the task that writes it.
func seed(path string, size int64, inputs []Named) [seedBytes]byte {
	inputs = slices.Clone(inputs)
	slices.SortFunc(inputs, func(a, b Named) int { return strings.Compare(a.Path, b.Path) })
	h := sha256.New()
	field := func(b []byte) { // with its length: no two lists of fields meet
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

// content is the bytes of a file: its seed, then what ChaCha8 makes of it.
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

// Make writes the content of a file that is the output of a task with these
// inputs; without inputs it is a file that is there before. It returns its sum.
func Make(w io.Writer, path string, size int64, inputs []Named) (Sum, error) {
	h := sha256.New()
	_, err := io.CopyBuffer(io.MultiWriter(w, h), newContent(seed(path, size, inputs), size), make([]byte, min(max(size, 1), chunk)))
	return sumOf(h), err
}

func sumOf(h hash.Hash) Sum { return Sum(h.Sum(nil)) }

// Verify reads a file to its end and checks that it has its size and that all
// of it follows from its beginning. That the beginning is the right one is for
// those to check who know what was read upstream.
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
