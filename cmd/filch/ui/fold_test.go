package ui

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// said runs f and returns the lines that f prints.
func said(t *testing.T, f func()) []string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stderr
	os.Stderr = w
	defer func() { os.Stderr = old }()
	f()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// Thirteen nodes with the same trouble take two lines, and other warnings their own.
func TestWarningsOfManyNodesAreFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := said(t, func() {
			var f Fold
			for n := range 13 {
				f.Warn(fmt.Sprintf("rank %d uses Open MPI, and none of the 2 ranks on n%d has asked for the others", 2*n, n+1))
			}
			f.Warn("n1: no cgroup to limit memory in")
			f.Warn("login: no cgroup to limit memory in")
			time.Sleep(foldAfter)
			synctest.Wait()
			f.Warn("n7: no cgroup to limit memory in")
			f.Warn("node left does not answer: its tasks are not listed")
			f.Warn("node right does not answer: its tasks are not listed")
			f.Flush()
			f.Flush()
		})
		want := map[string]int{
			"filch: warning: rank 0 uses Open MPI, and none of the 2 ranks on n1 has asked for the others":                                              1,
			"filch: warning: 12 more like this, of n2, n3, n4 and others: rank 0 uses Open MPI, and none of the 2 ranks on n1 has asked for the others": 1,
			"filch: warning: n1: no cgroup to limit memory in":                                                                                          1,
			"filch: warning: node left does not answer: its tasks are not listed":                                                                       1,
			"filch: warning: 1 more like this, of right: node left does not answer: its tasks are not listed":                                           1,
			"filch: warning: 1 more like this, of login: n1: no cgroup to limit memory in":                                                              1,
			"filch: warning: 1 more like this, of n7: n1: no cgroup to limit memory in":                                                                 1,
		}
		for _, line := range got {
			if want[line]--; want[line] < 0 {
				t.Errorf("got %q, once too often or not wanted", line)
			}
		}
		for line, n := range want {
			if n > 0 {
				t.Errorf("%q is missing", line)
			}
		}
	})
}
