package wire

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

type encoder struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

var encoders = sync.Pool{New: func() any { return &encoder{enc: msgpack.NewEncoder(nil)} }}

// maxPooled is the largest buffer kept for the next value.
const maxPooled = 512 << 10

// Marshal encodes v; structs become arrays.
func Marshal(v any) ([]byte, error) { return appendValue(nil, v) }

// appendValue appends the encoding of v to b.
func appendValue(b []byte, v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	e.buf.Reset()
	e.enc.Reset(&e.buf)
	e.enc.UseArrayEncodedStructs(true)
	e.enc.UseCompactInts(true)
	err := e.enc.Encode(v)
	if err == nil {
		b = append(b, e.buf.Bytes()...)
	}
	if e.buf.Cap() <= maxPooled {
		encoders.Put(e)
	}
	if err != nil {
		return b, fmt.Errorf("cannot encode %T: %w", v, err)
	}
	return b, nil
}

type decoder struct {
	r   bytes.Reader
	dec *msgpack.Decoder
}

var decoders = sync.Pool{New: func() any { return &decoder{dec: msgpack.NewDecoder(nil)} }}

// Unmarshal checks b and decodes b into v, a pointer to a concrete type.
func Unmarshal(b []byte, v any) error {
	if err := Check(b); err != nil {
		return err
	}
	d := decoders.Get().(*decoder)
	d.r.Reset(b)
	d.dec.Reset(&d.r)
	err := d.dec.Decode(v)
	left := d.r.Len()
	d.r.Reset(nil)
	if len(b) <= maxPooled {
		decoders.Put(d)
	}
	if err != nil {
		return fmt.Errorf("cannot decode %T: %w", v, err)
	}
	if left != 0 {
		return fmt.Errorf("cannot decode %T: %d bytes are left over", v, left)
	}
	return nil
}
