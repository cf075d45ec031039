package proc

// These tests look inside: the functions are pure, and their callers need a
// machine of the right kind to reach all of them.

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

func nodesOf(names string, ranks ...int32) []launcher.NodeRanks {
	var nodes []launcher.NodeRanks
	for i, n := range strings.Fields(names) {
		r := int32(1)
		if i < len(ranks) {
			r = ranks[i]
		}
		nodes = append(nodes, launcher.NodeRanks{Node: filch.NodeName(n), Ranks: []launcher.Span{{Count: r}}})
	}
	return nodes
}

func TestNodeList(t *testing.T) {
	for names, want := range map[string]string{
		"n1":                      "n1",
		"n1 n2 n3":                "n[1-3]",
		"n1 n3":                   "n[1,3]",
		"n1 n2 n4 n7 n8":          "n[1-2,4,7-8]",
		"n8 n9 n10 n11":           "n[8-11]",
		"n08 n09 n10":             "n[08-10]",
		"n09 n11":                 "n[09,11]",
		"a b":                     "a,b",
		"login n1 n2":             "login,n[1-2]",
		"n1 n2 gpu1 gpu2 login":   "n[1-2],gpu[1-2],login",
		"n3 n1":                   "n[3,1]",
		"10 11":                   "[10-11]",
		"rack1-n1 rack1-n2":       "rack1-n[1-2]",
		"n1 m1 n2":                "n1,m1,n2",
		"n99999999999999999999 n": "n99999999999999999999,n",
	} {
		if got := nodeList(nodesOf(names)); got != want {
			t.Errorf("%s: got %s, want %s", names, got, want)
		}
	}
}

func TestTasksPerNode(t *testing.T) {
	for want, ranks := range map[string][]int32{
		"2(x3),1": {2, 2, 2, 1}, "4": {4}, "1,2,1": {1, 2, 1}, "3(x2)": {3, 3},
	} {
		names := strings.Repeat("n ", len(ranks))
		if got := tasksPerNode(nodesOf(names, ranks...)); got != want {
			t.Errorf("%v: got %s, want %s", ranks, got, want)
		}
	}
}

func TestChooseCPUs(t *testing.T) {
	lent := []int32{2, 3, 6, 7}
	for _, c := range []struct {
		name string
		how  launcher.Bind
		lent []int32
		i, n int
		want []int
		kind string
	}{
		{"default-share", launcher.Bind{}, lent, 1, 2, []int{6, 7}, "MASK"},
		{"default-uneven", launcher.Bind{}, lent, 2, 3, []int{6, 7}, "MASK"},
		{"default-one-each", launcher.Bind{}, lent, 3, 4, []int{7}, "MASK"},
		{"default-more-ranks-than-cores", launcher.Bind{}, lent, 0, 5, nil, "NONE"},
		{"default-nothing-lent", launcher.Bind{}, nil, 0, 1, nil, "NONE"},
		{"none", launcher.Bind{Kind: "none"}, lent, 0, 1, nil, "NONE"},
		{"cores", launcher.Bind{Kind: "cores"}, lent, 0, 1, []int{2, 3, 6, 7}, "MASK"},
		{"rank", launcher.Bind{Kind: "rank"}, lent, 5, 6, []int{3}, "RANK"},
		{"rank-nothing-lent", launcher.Bind{Kind: "rank"}, nil, 0, 1, nil, "NONE"},
		{"map", launcher.Bind{Kind: "map_cpu", List: []string{"0", "0x5"}}, lent, 3, 4, []int{5}, "MAP"},
		{"map-repeated", launcher.Bind{Kind: "map_cpu", List: []string{"0*2", "3*2"}}, nil, 2, 4, []int{3}, "MAP"},
		{"map-nonsense", launcher.Bind{Kind: "map_cpu", List: []string{"x"}}, nil, 0, 1, nil, "NONE"},
		{"map-empty", launcher.Bind{Kind: "map_cpu"}, nil, 0, 1, nil, "NONE"},
		{"mask", launcher.Bind{Kind: "mask_cpu", List: []string{"0x3", "c"}}, nil, 1, 2, []int{2, 3}, "MASK"},
		{"mask-long", launcher.Bind{Kind: "mask_cpu", List: []string{"0x1" + strings.Repeat("0", 20)}}, nil, 0, 1, []int{80}, "MASK"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, kind := chooseCPUs(c.how, c.lent, c.i, c.n)
			if !slices.Equal(got, c.want) || kind != c.kind {
				t.Errorf("got %v %s, want %v %s", got, kind, c.want, c.kind)
			}
		})
	}
}

func TestSharesOfCoresDoNotOverlap(t *testing.T) {
	for cores := range 20 {
		lent := make([]int32, cores)
		for i := range lent {
			lent[i] = int32(3 * i)
		}
		for n := 1; n <= cores; n++ {
			var all []int
			for i := range n {
				cpus, _ := chooseCPUs(launcher.Bind{}, lent, i, n)
				if len(cpus) < cores/n {
					t.Fatalf("rank %d of %d got %v of %d cores", i, n, cpus, cores)
				}
				all = append(all, cpus...)
			}
			if len(all) != cores || len(slices.Compact(slices.Sorted(slices.Values(all)))) != cores {
				t.Fatalf("%d ranks share %d cores as %v", n, cores, all)
			}
		}
	}
}

func TestGPUEnv(t *testing.T) {
	for _, c := range []struct {
		gpus []string
		i, n int
		want string
	}{
		{nil, 0, 2, ""},
		{[]string{"nvidia:0", "nvidia:1"}, 1, 2, "FILCH_GPUS=nvidia:1 CUDA_VISIBLE_DEVICES=1"},
		{[]string{"amd3", "amd5"}, 0, 1, "FILCH_GPUS=amd3,amd5 ROCR_VISIBLE_DEVICES=3,5"},
		{[]string{"0"}, 2, 3, "FILCH_GPUS=0 CUDA_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=0 ZE_AFFINITY_MASK=0"},
		{[]string{"nvidia:GPU-8a3f", "nvidia:MIG-77-1"}, 1, 2, "FILCH_GPUS=nvidia:MIG-77-1 CUDA_VISIBLE_DEVICES=MIG-77-1"},
		{[]string{"intel:0.1"}, 0, 1, "FILCH_GPUS=intel:0.1 ZE_AFFINITY_MASK=0.1"},
		{[]string{"intel:7"}, 0, 1, "FILCH_GPUS=intel:7 ZE_AFFINITY_MASK=7"},
	} {
		if got := strings.Join(gpuEnv(c.gpus, c.i, c.n), " "); got != c.want {
			t.Errorf("%v, rank %d of %d: got %q, want %q", c.gpus, c.i, c.n, got, c.want)
		}
	}
}

// TestSpool checks a spool against a slice that keeps everything.
func TestSpool(t *testing.T) {
	seed := rand.Int63()
	r := rand.New(rand.NewSource(seed))
	s := spool{dir: t.TempDir()}
	var all []byte
	low := uint64(0)
	buf := make([]byte, 8192)
	for i := range 3000 {
		switch r.Intn(4) {
		case 0, 1:
			b := make([]byte, r.Intn(9000))
			r.Read(b)
			all = append(all, b...)
			if err := s.add(b); err != nil {
				t.Fatal(err)
			}
		case 2:
			if r.Intn(20) == 0 {
				low = s.end
			} else {
				low += uint64(r.Int63n(int64(s.end-low)/4 + 1))
			}
			s.trim(low)
		case 3:
			off := low + uint64(r.Int63n(int64(s.end-low)+1))
			if off == s.end {
				continue
			}
			b, err := s.read(off, buf)
			if err != nil || len(b) == 0 || !bytes.Equal(b, all[off:off+uint64(len(b))]) {
				t.Fatalf("seed %d, step %d: read of %d bytes at %d of %d-%d: %v", seed, i, len(b), off, s.base, s.end, err)
			}
		}
		if s.file == nil && len(s.mem) > spoolMemory || s.end != uint64(len(all)) || s.kept() != s.end-low {
			t.Fatalf("seed %d, step %d: %d in memory, end %d of %d, kept %d", seed, i, len(s.mem), s.end, len(all), s.kept())
		}
	}
	s.trim(s.end)
	if s.file != nil || s.mem != nil {
		t.Errorf("an empty spool keeps its file or memory")
	}
}

func TestScrub(t *testing.T) {
	env := []string{"A=1", "SLURM_JOB_ID=1", "PMI_FD=3", "PMIX_RANK=1", "bad", "=x", "NUL=\x00", "FILCH_LOCAL=/x", "FILCH_RANK=1", "MPI_LOCALRANKID=0"}
	for slurm, want := range map[bool][]string{
		false: {"A=1", "SLURM_JOB_ID=1", "FILCH_LOCAL=/x"}, // it was exported by name
		true:  {"A=1", "FILCH_LOCAL=/x"},
	} {
		if got := scrub(env, slurm); !slices.Equal(got, want) {
			t.Errorf("--slurm-env %v: got %q, want %q", slurm, got, want)
		}
	}
}

func TestShortPath(t *testing.T) {
	var deep strings.Builder
	deep.WriteString(t.TempDir())
	for range 12 {
		deep.WriteString("/a-rather-long-folder")
	}
	if err := os.MkdirAll(deep.String(), 0o700); err != nil {
		t.Fatal(err)
	}
	short, done, err := shortPath(deep.String() + "/k1.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if len(short) > 100 {
		t.Errorf("%d bytes: %s", len(short), short)
	}
	if err := os.WriteFile(deep.String()+"/k1.sock", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(short); err != nil || string(b) != "x" {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestParentOf(t *testing.T) {
	if got := parentOf(os.Getpid()); got != os.Getppid() {
		t.Errorf("got %d, want %d", got, os.Getppid())
	}
	if got := parentOf(1 << 30); got != 0 {
		t.Errorf("a process that is not has parent %d", got)
	}
	if got, want := fmt.Sprint(descendantsByParent(os.Getpid())), fmt.Sprint(descendants(os.Getpid())); got != want {
		t.Errorf("by parent %s, by children %s", got, want)
	}
}

func TestLibraryIsChosen(t *testing.T) {
	dir := t.TempDir()
	module := dir + "/lib/python3.11/site-packages/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so"
	if err := os.MkdirAll(filepath.Dir(module), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-shared", "-o", dir + "/libmpi.so.40", "-Wl,-soname,libmpi.so.40", "-xc", "/dev/null"},
		{"-shared", "-o", module, "-Wl,--no-as-needed", "-xc", "/dev/null", "-xnone", dir + "/libmpi.so.40"},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v: %s; apt-get install gcc libc6-dev", err, out)
		}
	}
	for _, args := range [][]string{
		// A program that needs a library that needs Open MPI, found by its
		// path or by the environment's.
		{"-shared", "-o", dir + "/libmid.so.1", "-Wl,-soname,libmid.so.1", "-Wl,--no-as-needed", "-xc", "/dev/null", "-xnone", dir + "/libmpi.so.40"},
		{"-o", dir + "/run", "-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-rpath,$ORIGIN", "-xc", dir + "/main.c", "-xnone", dir + "/libmid.so.1"},
		{"-o", dir + "/bare", "-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all", "-xc", dir + "/main.c", "-xnone", dir + "/libmid.so.1"},
	} {
		if err := os.WriteFile(dir+"/main.c", []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v: %s; apt-get install gcc libc6-dev", err, out)
		}
	}
	inspected := func(name string) program {
		p, f := inspect(name, filepath.Join(dir, name), "n1")
		if f != nil {
			t.Fatal(f.err)
		}
		return p
	}
	run, bare := inspected("run"), inspected("bare")
	python := dir + "/bin/python3"
	ompi := program{path: "/x", info: binaryInfo{elf: true, needed: []string{"libmpi_mpifh.so.40", "libc.so.6"}}}
	mpich := program{path: "/x", info: binaryInfo{elf: true, needed: []string{"libmpich.so.12"}}}
	snake := program{path: python, info: binaryInfo{elf: true, needed: []string{"libc.so.6"}}}
	script := program{path: dir + "/x.py", script: "/usr/bin/env", scriptArg: "python3"}
	shell := program{path: dir + "/x.sh", script: "/bin/sh"}
	for _, c := range []struct {
		name string
		mpi  string
		exe  program
		size int32
		env  string
		want library
	}{
		{"open-mpi", "auto", ompi, 2, "", libraryPMIx},
		{"open-mpi-alone", "", ompi, 1, "", libraryPMIx},
		{"open-mpi-otherwise", "pmi2", ompi, 2, "", libraryPMI},
		{"open-mpi-apart", "none", ompi, 2, "", libraryNone},
		{"by-a-library", "auto", run, 2, "", libraryPMIx},
		{"by-a-library-lost", "auto", bare, 2, "", libraryPMI},
		{"by-a-library-given", "auto", bare, 2, "LD_LIBRARY_PATH=/nonexistent:" + dir, libraryPMIx},
		{"mpich", "auto", mpich, 2, "", libraryPMI},
		{"mpich-otherwise", "pmix", mpich, 2, "", libraryPMIx},
		{"mpi4py", "auto", snake, 2, "", libraryPMIx},
		{"mpi4py-alone", "auto", snake, 1, "", libraryPMI},
		{"mpi4py-script", "auto", script, 2, "PATH=" + dir + "/bin", libraryPMIx},
		{"mpi4py-elsewhere", "auto", script, 2, "PATH=/nonexistent", libraryPMI},
		{"shell", "auto", shell, 2, "LOADEDMODULES=gcc/12:mpich/4", libraryPMI},
		{"shell-module", "auto", shell, 2, "LOADEDMODULES=gcc/12:OpenMPI/4.1.4-GCC", libraryPMIx},
	} {
		j := &job{ranks: []*rank{{exe: c.exe}}}
		j.what.Programs = []launcher.Program{{Argv: []string{"./x"}}}
		j.what.MPI, j.what.Env, j.order.Launch.Size = c.mpi, []string{c.env}, c.size
		if c.name == "mpi4py-script" {
			if err := os.MkdirAll(dir+"/bin", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(python, nil, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if got := j.library(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestLibCache(t *testing.T) {
	var c libCache
	found := c.find("libc.so.6")
	if len(found) < 5 || !exists(found[0]) {
		t.Errorf("got %v", found)
	}
	for n := range len(c.data) / 97 {
		cachedLibs(c.data[:n*97], "libc.so.6")
	}
	broken := slices.Clone(c.data)
	for i := range broken[:min(len(broken), 4000)] {
		broken[i] ^= 0xff
		cachedLibs(broken, "libc.so.6")
	}
}

// TestGiveUp counts what cannot be killed: a child that nobody has killed.
func TestGiveUp(t *testing.T) {
	poll, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(poll.ep)
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	k := &keeper{poll: poll, room: &room{fd: -1, tasks: -1}, link: &link{fd: -1}}
	j := &job{keeper: k, phase: running, alive: 2, ranks: []*rank{
		{id: 4, phase: rankRunning, told: true, pidfd: -1}, {id: 5, phase: rankGone, said: true, pidfd: -1},
	}}
	j.giveUp()
	if j.stop.left != 1 || j.phase != ended || !j.nothingLeft() {
		t.Errorf("left %d, phase %d", j.stop.left, j.phase)
	}
	if len(j.news) != 1 || j.news[0].Rank != 4 || j.news[0].Kind != launcher.CauseOurs || j.news[0].Text != "could not be killed within 1m0s" {
		t.Errorf("said %+v", j.news)
	}
}

// A worker that could not be killed ends all the same one day: its task has
// ended long before, once, and its files are closed once.
func TestGiveUpOfAWorker(t *testing.T) {
	runtime.LockOSThread() // the worker dies with the thread that forked it
	defer runtime.UnlockOSThread()
	poll, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(poll.ep)
	r := &runner{
		poll: poll, link: &link{fd: -1}, place: Place{Dir: t.TempDir(), Node: "n3"},
		orders: map[filch.JobID]*taskOrder{}, tasks: map[uint64]*task{}, byPID: map[int]*task{},
	}
	r.keep = newKeeping(r)
	defer r.keep.close()
	r.orders[1] = newTaskOrder(r, &launcher.TaskOrder{
		Ident: filch.Ident{Job: 1}, Argv: []string{"/bin/sh", "-c", "echo printed >&2; read x; read y"},
		Worker: true, Keep: launcher.KeepAll, Env: os.Environ(), Cwd: "/",
	})
	r.start(&launcher.TaskStart{Serial: 1, Job: 1, Line: "x"})
	x := r.tasks[1]
	if x == nil {
		t.Fatalf("no task was started: %+v", r.ends)
	}
	w, printed := x.worker, x.out.fds[1]
	for end := time.Now().Add(10 * time.Second); size(printed) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	r.giveUp(x)
	var others []*os.File // which take the numbers of what was closed
	for range 8 {
		f, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		others = append(others, f)
	}
	if err := unix.Kill(w.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for w.pidfd >= 0 {
		if err := poll.turn(); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range others {
		if _, err := f.Stat(); err != nil {
			t.Errorf("a file of somebody else was closed: %v", err)
		}
	}
	if len(r.ends) != 1 || !r.ends[0].Left || r.ends[0].Bytes < int64(len("printed\n")) {
		t.Errorf("told %+v", r.ends)
	}
}

// A keeper without a launcher waits for one: it does not run meanwhile.
func TestLeaseIsNotLookedAtAllTheTime(t *testing.T) {
	poll, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(poll.ep)
	k := &keeper{poll: poll, link: &link{fd: -1}, leased: time.Now().Add(-LeaseMax)}
	k.watchLease()
	if err := poll.turn(); err != nil {
		t.Fatal(err)
	}
	if poll.pause() == 0 {
		t.Error("it looks again at once")
	}
}
