//go:build root

package mpi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/mpi"
	"github.com/filch-hpc/filch/testbed/rig"
)

// TestPrograms runs programs that we did not write over 2 and 4 hosts with a
// rank on each: MPICH's own examples, NetPIPE, ScaLAPACK's self-checks. The
// bytes that ranks exchange must have crossed every host's cable.
func TestPrograms(t *testing.T) {
	for _, hosts := range []int{2, 4} {
		t.Run(fmt.Sprintf("hosts=%d", hosts), func(t *testing.T) {
			c := up(t, hosts, 2)
			t.Run("hello", func(t *testing.T) { c.as(t).hello() })
			t.Run("ring", func(t *testing.T) { c.as(t).ring() })
			t.Run("allreduce", func(t *testing.T) { c.as(t).allreduce() })
			t.Run("cpi", func(t *testing.T) { c.as(t).cpi() })
			t.Run("icpi", func(t *testing.T) { c.as(t).icpi() })
			t.Run("srtest", func(t *testing.T) { c.as(t).srtest() })
			t.Run("hellow", func(t *testing.T) { c.as(t).hellow() })
			t.Run("stdin", func(t *testing.T) { c.as(t).stdin() })
			if hosts == 2 {
				t.Run("netpipe", func(t *testing.T) { c.as(t).netpipe("/usr/bin/NPmpich2") })
			}
			for _, p := range []string{"LU", "LLT", "QR"} {
				t.Run("scalapack-"+p, func(t *testing.T) { c.as(t).scalapack("mpich", p, "testdata/scalapack", 10_000) })
			}
			c.as(t).whole(10*time.Second, hosts)
		})
	}
}

// as is the same cluster for a subtest.
func (c *cluster) as(t *testing.T) *cluster {
	return &cluster{c.With(t)}
}

// spread runs a program with n ranks over all hosts, and checks that it ended
// well and that every host sent bytes of that run: least, or more.
func (c *cluster) spread(n int, least uint64, stdin, program string, args ...string) result {
	c.T.Helper()
	before := c.sent()
	all := append([]string{"run", "-n", strconv.Itoa(n), "-N", strconv.Itoa(len(c.Hosts)), program}, args...)
	r := c.launch(0, 2*time.Minute, stdin, all...).wait()
	if r.code != 0 {
		c.T.Errorf("%v: %v", all, r)
	}
	after := c.sent()
	for i, h := range c.Hosts {
		if after[i]-before[i] < least {
			c.T.Errorf("%s sent %d bytes, want %d and more", h.Name, after[i]-before[i], least)
		}
	}
	c.gone(5*time.Second, c.everywhere()...)
	return r
}

func (c *cluster) everywhere() []int {
	all := make([]int, len(c.Hosts))
	for i := range all {
		all[i] = i
	}
	return all
}

// sent is what each host has sent over its cable so far.
func (c *cluster) sent() []uint64 {
	c.T.Helper()
	n := make([]uint64, len(c.Hosts))
	for i, h := range c.Hosts {
		_, tx, err := h.Bytes()
		if err != nil {
			c.T.Fatal(err)
		}
		n[i] = tx
	}
	return n
}

// hello has one and, on two hosts, two ranks on each.
func (c *cluster) hello() {
	names := make([]string, len(c.Hosts))
	for i, h := range c.Hosts {
		names[i] = h.Name
	}
	for per := 1; per <= 4/len(c.Hosts); per++ {
		n := per * len(c.Hosts)
		r := c.spread(n, 1000, "", program(c.T, "hello"))
		where := make([]int32, n)
		for l := range strings.SplitSeq(strings.TrimSpace(r.stdout), "\n") {
			var rank, size, shared int
			var host string
			if _, err := fmt.Sscanf(l, "rank %d of %d on %s shared %d", &rank, &size, &host, &shared); err != nil || rank >= n {
				c.T.Fatalf("hello said %q", l)
			}
			for i := range names {
				if names[i] == host {
					where[rank] = int32(i)
				}
			}
		}
		hellos(c.T, r.stdout, where, names)
		count := map[int32]int{}
		for _, n := range where {
			count[n]++
		}
		for i, name := range names {
			if count[int32(i)] != per {
				c.T.Errorf("%s had %d ranks, want %d", name, count[int32(i)], per)
			}
		}
	}
}

func (c *cluster) ring() {
	n := len(c.Hosts)
	r := c.spread(n, 1_000_000, "", program(c.T, "ring"), "20", "50000")
	if want := fmt.Sprintf("ring of %d: token %d, want %d\n", n, 20*n, 20*n); r.stdout != want {
		c.T.Errorf("ring said %q, want %q", r.stdout, want)
	}
}

func (c *cluster) allreduce() {
	n := len(c.Hosts)
	r := c.spread(n, 100_000, "", program(c.T, "allreduce"), "20000", "2")
	if want := fmt.Sprintf("allreduce of %d: 0 of 20000 wrong\n", n); r.stdout != want {
		c.T.Errorf("allreduce said %q, want %q", r.stdout, want)
	}
}

func (c *cluster) cpi() {
	r := c.spread(len(c.Hosts), 1000, "", program(c.T, "cpi"))
	for i, h := range c.Hosts {
		if !strings.Contains(r.stdout, fmt.Sprintf("of %d is on %s\n", len(c.Hosts), h.Name)) {
			c.T.Errorf("cpi does not name host %d, %s: %s", i, h.Name, r.stdout)
		}
	}
	c.pi(r.stdout)
}

// pi checks what cpi and icpi print.
func (c *cluster) pi(s string) {
	c.T.Helper()
	m := regexp.MustCompile(`pi is approximately (3\.14\d+), Error is 0\.0000`).FindStringSubmatch(s)
	if m == nil {
		c.T.Errorf("no pi in %q", s)
	}
}

func (c *cluster) icpi() {
	r := c.spread(len(c.Hosts), 1000, "10000\n0\n", program(c.T, "icpi"))
	if strings.Count(r.stdout, "Enter the number of intervals") != 2 {
		c.T.Errorf("icpi did not ask twice: %s", r.stdout)
	}
	c.pi(r.stdout)
}

func (c *cluster) srtest() {
	n := len(c.Hosts)
	r := c.spread(n, 1000, "", program(c.T, "srtest"))
	for i := range n {
		if !strings.Contains(r.stdout, fmt.Sprintf("%d received 'hello there'", i)) {
			c.T.Errorf("rank %d received nothing: %s", i, r.stdout)
		}
		if !strings.Contains(r.stderr, fmt.Sprintf("Process %d of %d\n", i, n)) {
			c.T.Errorf("rank %d said nothing on stderr: %s", i, r.stderr)
		}
	}
}

func (c *cluster) hellow() {
	n := len(c.Hosts)
	r := c.spread(n, 1000, "", program(c.T, "hellow"))
	for i := range n {
		if !strings.Contains(r.stdout, fmt.Sprintf("Hello world from process %d of %d\n", i, n)) {
			c.T.Errorf("rank %d said nothing: %s", i, r.stdout)
		}
	}
}

// stdin goes to every rank.
func (c *cluster) stdin() {
	n := len(c.Hosts)
	before := c.sent()
	r := c.spread(n, 1000, strings.Repeat("x", 300_000), program(c.T, "stdin"))
	if n := c.sent()[0] - before[0]; n < 300_000 {
		c.T.Errorf("n1 sent %d bytes of 300,000", n)
	}
	for i := range n {
		if want := fmt.Sprintf("rank %d read 300000 bytes\n", i); !strings.Contains(r.stdout, want) {
			c.T.Errorf("said %q, want it to contain %q", r.stdout, want)
		}
	}
}

func (c *cluster) netpipe(np string) {
	c.T.Helper()
	if _, err := os.Stat(np); err != nil {
		c.T.Fatalf("no NetPIPE: %s", mpi.Install)
	}
	upper := "1000"
	if rig.Full() {
		upper = "10000"
	}
	r := c.spread(2, 50_000, "", np, "-u", upper, "-n", "10", "-o", filepath.Join(c.Dir, "np.out"))
	said := r.stdout + r.stderr
	if !strings.Contains(said, "Mbps") || strings.Count(said, "Mbps") < 20 {
		c.T.Errorf("NetPIPE said %s", said)
	}
}

// scalapackDir holds the self-checking programs of ScaLAPACK, and Debian's data
// for them.
func scalapackDir(library string) string {
	return "/usr/lib/x86_64-linux-gnu/scalapack/" + library + "-tests/"
}

// scalapack runs one of them on the data of a folder, spread over a grid of four
// ranks; every host must send that much.
func (c *cluster) scalapack(library, name, data string, least uint64) {
	c.T.Helper()
	prog := scalapackDir(library) + "xd" + strings.ToLower(name)
	if _, err := os.Stat(prog); err != nil {
		c.T.Fatalf("no ScaLAPACK: %s", mpi.Install)
	}
	text, err := os.ReadFile(filepath.Join(data, name+".dat"))
	if err != nil {
		c.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, name+".dat"), text, 0o644); err != nil {
		c.T.Fatal(err)
	}
	r := c.spread(4, least, "", prog)
	if n := strings.Count(r.stdout, " PASSED"); n < 2 || !strings.Contains(r.stdout, " 0 tests completed and failed residual checks") {
		c.T.Errorf("%s: %d checks passed: %s", name, n, r.stdout)
	}
	if n := strings.Count(r.stdout, "Finished "); n != 1 {
		c.T.Errorf("%s: %d reports: its ranks ran alone: %s", name, n, r.stdout)
	}
}
