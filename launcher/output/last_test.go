package output

import (
	"maps"
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	dir := t.TempDir()
	s := NewSegments(dir, 1)
	for _, p := range []Printed{
		{Index: 1, Attempt: 1, Stream: 2, Data: []byte("first\nsecond\n")},
		{Index: 1, Attempt: 1, Stream: 1, Data: []byte("on stdout\n")},
		{Index: 2, Attempt: 2, Stream: 2, Data: []byte("the later try")},
		{Index: 2, Attempt: 1, Stream: 2, Data: []byte("the earlier try\n")},
		{Index: 3, Attempt: 1, Stream: 2, Data: []byte("piece one\n")},
		{Index: 3, Attempt: 1, Stream: 2, Data: []byte("piece two\n\n  \r\n")},
		{Index: 4, Attempt: 1, Stream: 2, Data: []byte("10 %\r20 %\r30 %\n")},
		{Index: 5, Attempt: 1, Stream: 2, Data: []byte("\n\n")},
		{Index: 6, Attempt: 1, Stream: 2, Data: []byte("not asked for\n")},
		{Index: 7, Attempt: 1, Stream: 2, Data: []byte(strings.Repeat("x", 3*lastBytes))},
		{Index: 8, Attempt: 1, Stream: 2, Data: []byte("said once\n")},
		{Index: 8, Attempt: 2, Stream: 2, Data: []byte("\n")},
		{Index: 9, Attempt: 1, Stream: 2, Data: []byte("bad\xff\n")},
	} {
		if err := s.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := LastLines(dir, func(task int32) bool { return task != 6 })
	want := map[int32]string{1: "second", 2: "the later try", 3: "piece two", 4: "30 %", 7: strings.Repeat("x", lastBytes), 9: "bad\ufffd"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
