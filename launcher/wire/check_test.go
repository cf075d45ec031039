package wire_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

func TestCheckRefusesBombs(t *testing.T) {
	for name, b := range map[string][]byte{
		"array-claims-a-billion":        {0xdd, 0x3f, 0xff, 0xff, 0xff},
		"bin-claims-a-gigabyte":         {0xc6, 0x3f, 0xff, 0xff, 0xff},
		"string-claims-four-gigabytes":  {0xdb, 0xff, 0xff, 0xff, 0xff},
		"map-claims-a-billion":          {0xdf, 0x3f, 0xff, 0xff, 0xff},
		"array-inside-a-struct's-map":   {0x81, 0xa1, 'A', 0xdd, 0x3f, 0xff, 0xff, 0xff},
		"a-million-nested-arrays":       bytes.Repeat([]byte{0x91}, 1<<20),
		"nested-one-too-deep":           append(bytes.Repeat([]byte{0x91}, wire.MaxDepth+1), 0xc0),
		"nothing":                       {},
		"cut-off-in-a-length":           {0xdd, 0x00},
		"extension":                     {0xd4, 0x01, 0x00},
		"extension-32":                  {0xc9, 0, 0, 0, 1, 1, 0},
		"never-used-token":              {0xc1},
		"two-values":                    {0xc0, 0xc0},
		"more-than-the-most-elements":   many(wire.MaxElements + 1),
		"map-with-half-of-its-children": {0x82, 0xc0, 0xc0},
	} {
		t.Run(name, func(t *testing.T) {
			if err := wire.Check(b); err == nil {
				t.Errorf("accepted %.16x", b)
			}
		})
	}
}

func TestCheckLetsThrough(t *testing.T) {
	for name, b := range map[string][]byte{
		"nil":            {0xc0},
		"deepest":        append(bytes.Repeat([]byte{0x91}, wire.MaxDepth), 0xc0),
		"every-number":   {0x9a, 1, 0xff, 0xcc, 1, 0xcd, 0, 1, 0xce, 0, 0, 0, 1, 0xd0, 1, 0xd1, 0, 1, 0xd2, 0, 0, 0, 1, 0xca, 0, 0, 0, 0, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0},
		"empty-array-32": {0xdd, 0, 0, 0, 0},
		"most-elements":  many(wire.MaxElements - 1),
	} {
		t.Run(name, func(t *testing.T) {
			if err := wire.Check(b); err != nil {
				t.Errorf("%.16x: %v", b, err)
			}
		})
	}
}

// many is an array of n nils.
func many(n int) []byte {
	b := []byte{0xdd, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	return append(b, bytes.Repeat([]byte{0xc0}, n)...)
}

func TestCheckDoesNotAllocate(t *testing.T) {
	b, err := wire.Marshal(sampleStart())
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := wire.Check(b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func FuzzCheck(f *testing.F) {
	b, _ := wire.Marshal(sampleStart())
	f.Add(b)
	f.Add([]byte{0xdd, 0, 0, 0, 3, 1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 || wire.Check(b) != nil {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var s launcher.Start
		_ = wire.Unmarshal(b, &s)
		runtime.ReadMemStats(&after)
		// A byte can stand for one empty NodeRanks, which has 64.
		if got, limit := after.TotalAlloc-before.TotalAlloc, 1<<20+512*uint64(len(b)); got > limit {
			t.Errorf("%d bytes made the decoder allocate %d, want at most %d", len(b), got, limit)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	p, _ := wire.Marshal(sampleStart())
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		_ = wire.Check(p)
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	p, _ := wire.Marshal(sampleStart())
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		var s launcher.Start
		_ = wire.Unmarshal(p, &s)
	}
}
