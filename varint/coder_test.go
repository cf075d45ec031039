package varint

import (
	"reflect"
	"testing"
)

type sample struct {
	n, m     uint64
	b        uint8
	one      bool
	x, y     bool
	raw      []byte
	text     string
	elements []uint64
}

func (s *sample) code(c *Coder) {
	c.Uint(&s.n, &s.m)
	c.Byte(&s.b)
	c.Flag(&s.one)
	c.Flags(&s.x, &s.y)
	c.Bytes(&s.raw, 10)
	c.Text(&s.text, 10)
	Slice(c, &s.elements, 1, func(p *uint64) { c.Uint(p) })
	c.Require(s.n <= 1<<40)
}

// TestCoder encodes a layout and decodes the bytes, whole and cut off.
func TestCoder(t *testing.T) {
	want := sample{n: 1 << 40, m: 127, b: 200, one: true, y: true, raw: []byte("raw"), text: "text", elements: []uint64{0, 128, 1<<64 - 1}}
	e := Encoder([]byte("front"))
	want.code(&e)
	b := e.B[len("front"):]
	var got sample
	d := Decoder(b)
	if got.code(&d); d.Bad || d.Left() > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %+v, bad %t, %d bytes left; want %+v", got, d.Bad, d.Left(), want)
	}
	for n := range b {
		d := Decoder(b[:n])
		if new(sample).code(&d); !d.Bad {
			t.Errorf("the first %d of %d bytes are a layout", n, len(b))
		}
	}
}

// TestCoderRefuses decodes values beyond their limits.
func TestCoderRefuses(t *testing.T) {
	for name, s := range map[string]sample{
		"requirement": {n: 1<<40 + 1},
		"bytes":       {raw: make([]byte, 11)},
		"text":        {text: "eleven long"},
	} {
		e := Encoder(nil)
		s.code(&e)
		d := Decoder(e.B)
		if new(sample).code(&d); e.Bad || !d.Bad {
			t.Errorf("%s: bad %t when encoded, %t when decoded; want false, true", name, e.Bad, d.Bad)
		}
	}
	// More elements than bytes must not allocate.
	d := Decoder([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	var all []uint64
	if Slice(&d, &all, 1, func(p *uint64) { d.Uint(p) }); !d.Bad || all != nil {
		t.Errorf("%d elements of 5 bytes, bad %t", len(all), d.Bad)
	}
}
