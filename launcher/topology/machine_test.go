package topology

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/testbed/machinetree"
)

// show writes processors: the CPUs of each, a bar between NUMA nodes, two between sockets.
func show(list []filch.Processor) string {
	var b strings.Builder
	for i, p := range list {
		switch {
		case i == 0:
		case p.Socket != list[i-1].Socket:
			b.WriteString(" || ")
		case p.Domain != list[i-1].Domain:
			b.WriteString(" | ")
		default:
			b.WriteByte(' ')
		}
		b.WriteString(FormatList(p.CPUs))
	}
	return b.String()
}

func TestProcessorsOfGeneratedTrees(t *testing.T) {
	for _, c := range []struct {
		name, cores, threads string
	}{
		{"one-cpu", "0", "0"},
		{"smt-2", "0,4 1,5 2,6 3,7", "0 4 1 5 2 6 3 7"},
		{"smt-2-adjacent", "0-1 2-3", "0 1 2 3"},
		{"smt-4-old-names", "0-3 4-7", "0 1 2 3 4 5 6 7"},
		{"two-sockets", "0,4 1,5 || 2,6 3,7", "0 4 1 5 || 2 6 3 7"},
		{"two-domains-in-a-socket", "0 1 | 2 3", "0 1 | 2 3"},
		{"memory-only-node", "0 1", "0 1"},
		{"no-numa", "0 || 1", "0 || 1"},
		{"offline-thread", "0 1,3", "0 1 3"},
		{"offline-first-cpu", "1 || 2 3", "1 || 2 3"},
		{"mask-cuts-cores", "0,4 1,5 2 3", "0 4 1 5 2 3"},
		{"mask-wider-than-online", "0 1", "0 1"},
		{"cgroup-1", "1 || 2", "1 || 2"},
		{"cgroup-2-and-mask", "1 || 2", "1 || 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Read(machinetree.Of(c.name).Tree())
			if err != nil {
				t.Fatal(err)
			}
			if got := show(m.Processors(false)); got != c.cores {
				t.Errorf("cores: got %s, want %s", got, c.cores)
			}
			if got := show(m.Processors(true)); got != c.threads {
				t.Errorf("hardware threads: got %s, want %s", got, c.threads)
			}
		})
	}
}

func TestLargeGeneratedTrees(t *testing.T) {
	for _, c := range []struct {
		name                             string
		cores, threads, sockets, domains int
	}{
		{"eight-numa-nodes", 128, 256, 2, 8},
		{"2048-cpus", 1024, 2048, 16, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Read(machinetree.Of(c.name).Tree())
			if err != nil {
				t.Fatal(err)
			}
			cores, threads := m.Processors(false), m.Processors(true)
			sockets, domains := map[int32]int{}, map[int32]int{}
			for _, p := range cores {
				sockets[p.Socket]++
				domains[p.Domain]++
			}
			if len(cores) != c.cores || len(threads) != c.threads || len(sockets) != c.sockets || len(domains) != c.domains {
				t.Errorf("got %d cores, %d threads, %d sockets, %d domains; want %d, %d, %d, %d",
					len(cores), len(threads), len(sockets), len(domains), c.cores, c.threads, c.sockets, c.domains)
			}
			for d, n := range domains {
				if n != c.cores/c.domains {
					t.Errorf("domain %d: got %d cores, want %d", d, n, c.cores/c.domains)
				}
			}
			if !slices.IsSortedFunc(cores, func(a, b filch.Processor) int { return int(a.Domain - b.Domain) }) {
				t.Error("the cores of a domain are not neighbors")
			}
			if got := len(CPUs(cores)); got != c.threads {
				t.Errorf("the cores have %d CPUs, want %d", got, c.threads)
			}
		})
	}
}

func TestReadWithoutDescriptions(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for _, c := range []struct {
		name, want string
		tree       fstest.MapFS
	}{
		{"only-the-mask", "2 3", fstest.MapFS{"proc/self/status": file("Name:\tx\nCpus_allowed_list:\t2-3\nMems_allowed:\t1\n")}},
		{"only-online", "0 1", fstest.MapFS{"sys/devices/system/cpu/online": file("0-1\n")}},
		{"compute-units", "0 1", fstest.MapFS{
			"sys/devices/system/cpu/online":                             file("0-1\n"),
			"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": file("0-1\n"), "sys/devices/system/cpu/cpu0/topology/core_id": file("0\n"),
			"sys/devices/system/cpu/cpu1/topology/thread_siblings_list": file("0-1\n"), "sys/devices/system/cpu/cpu1/topology/core_id": file("1\n"),
		}},
		{"cpuset-of-the-parent", "1", fstest.MapFS{
			"sys/devices/system/cpu/online": file("0-1\n"), "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/cpuset.cpus.effective": file("1\n"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Read(c.tree)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(m.Processors(false)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	if _, err := Read(fstest.MapFS{}); err == nil {
		t.Error("an empty tree was read without an error")
	}
}

func TestOfflineAndWithin(t *testing.T) {
	m, err := Read(machinetree.Machine{Sockets: 1, Cores: 4, Threads: 2, Offline: []int{3, 7}}.Tree())
	if err != nil {
		t.Fatal(err)
	}
	if got := FormatList(m.Offline); got != "3,7" {
		t.Errorf("offline: got %s, want 3,7", got)
	}
	w := m.Within([]int32{6, 2, 0})
	if got := show(w.Processors(false)); got != "0 2,6" {
		t.Errorf("within 0,2,6: got %s, want 0 2,6", got)
	}
	if w = m.Within(nil); len(w.Allowed) != 6 {
		t.Errorf("within nothing: got %d CPUs, want all 6", len(w.Allowed))
	}
}

// TestThisMachine reads the machine that runs the test: the kernel's own tree has the form
// that the generator writes.
func TestThisMachine(t *testing.T) {
	m, err := Read(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := CPUs(m.Processors(false)), m.Allowed; !slices.Equal(got, want) {
		t.Errorf("cores have the CPUs %s, and %s are allowed", FormatList(got), FormatList(want))
	}
	if a, b := len(m.Processors(true)), len(m.Allowed); a != b {
		t.Errorf("%d hardware threads, %d CPUs allowed", a, b)
	}
}

func TestWrittenTree(t *testing.T) {
	dir := t.TempDir()
	if err := (machinetree.Machine{Sockets: 2, Cores: 2}).Write(dir); err != nil {
		t.Fatal(err)
	}
	m, err := Read(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(m.Processors(false)), "0 1 || 2 3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLists(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"0\n", "0"},
		{"3,0-1", "0-1,3"},
		{"0-7:2/4", "0-1,4-5"},
		{"1-2,2-3", "1-3"},
	} {
		got, err := parseList(c.in)
		if err != nil || FormatList(got) != c.want {
			t.Errorf("%q: got %s, %v; want %s", c.in, FormatList(got), err, c.want)
		}
	}
	for _, bad := range []string{"x", "3-1", "-1", "0-" + fmt.Sprint(cpusMax), "0-3:0/2", "0-3:3/2", "1-2-3"} {
		if got, err := parseList(bad); err == nil {
			t.Errorf("%q: got %s, want an error", bad, FormatList(got))
		}
	}
}

func FuzzLists(f *testing.F) {
	f.Add("0-3,8")
	f.Add("0-31:2/8")
	f.Fuzz(func(t *testing.T, s string) {
		cpus, err := parseList(s)
		if err != nil {
			return
		}
		again, err := parseList(FormatList(cpus))
		if err != nil || !slices.Equal(again, cpus) {
			t.Errorf("%q: got %v, %v; want %v", s, again, err, cpus)
		}
	})
}
