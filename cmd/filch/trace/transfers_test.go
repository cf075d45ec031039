package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
)

// An arrow leads from the end of a task to the begin of a task behind it that fetched files on
// another node, in both formats.
func TestTransfers(t *testing.T) {
	for name, read := range map[string]func([]byte) *drawn{
		"chrome":   func(b []byte) *drawn { return readChrome(t, b) },
		"perfetto": func(b []byte) *drawn { return readPerfetto(t, b, start) },
	} {
		var b bytes.Buffer
		p := &painter{job: 7, step: 1}
		if name == "chrome" {
			p.out = asChrome(bufio.NewWriter(&b))
		} else {
			p.out = asPerfetto(bufio.NewWriter(&b))
		}
		for _, n := range []filch.NodeName{"n1", "n2"} {
			p.row(n)
		}
		f := &transfers{make([]moved, 5)}
		f.add(0, &span{Begin: start, End: start + 5000, Task: 10}, 100)
		f.add(1, &span{Begin: start + 9000, End: start + 20000, Task: 11, Node: 1, In: 500}, 0)
		f.add(2, &span{Begin: start + 9000, End: start + 20000, Task: 12, In: 500}, 0) // on the same node
		f.add(3, &span{Begin: start + 9000, End: start + 20000, Task: 13, Node: 1}, 0) // fetched nothing
		n := int64(0)
		for i, parents := range [][]int32{{}, {0, 4, 9}, {0}, {0}, {0}} { // 4 never ran, 9 is not there
			n += f.into(i, parents, p)
		}
		if err := p.out.end(); err != nil {
			t.Fatal(err)
		}
		d := read(b.Bytes())
		want := []drawnSlice{
			{"n1/files", 5000, 6000, "files of 7.10 go to n2", " bytes_at_most=100"},
			{"n2/files", 9000, 10000, "files of 7.10 for 7.11", " bytes_at_most=100"},
		}
		if n != 1 || !slices.Equal(d.slices, want) {
			t.Errorf("%s: %d transfers, %+v, want %+v", name, n, d.slices, want)
		}
		if got := d.flows[1]; !slices.Equal(got, []string{"s n1/files", "f n2/files"}) {
			t.Errorf("%s: the files go %v", name, got)
		}
	}
}

// A trace of a million tasks: sorting, lanes and packets.
func BenchmarkTrace(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			for b.Loop() {
				s := newSorter()
				p := &painter{job: 7, step: 1e9, out: newPerfetto(bufio.NewWriterSize(io.Discard, 1<<18), start)}
				for i := range 64 {
					p.row(filch.NodeName(fmt.Sprintf("n%d", i+1)))
				}
				for i := range n {
					begin := start + int64(i/1024)*1e9
					if err := s.add(&span{Begin: begin, End: begin + 1e9, Task: int32(i), Node: int32(i % 64), State: filch.OK}); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.each(p.span); err != nil {
					b.Fatal(err)
				}
				_ = s.close()
			}
		})
	}
}
