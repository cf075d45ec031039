package proc_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

func TestKeeperRunsRanks(t *testing.T) {
	b := newBoss(t)
	b.run(newOrder(3, argv("print", "out\n", "!err\n")...))
	s := b.untilDone()
	if s.ready == nil || s.ready.Err != nil {
		t.Fatalf("ready: %+v", s.ready)
	}
	if s.started == nil || len(s.started.PIDs) != 3 {
		t.Errorf("started: %+v", s.started)
	}
	if len(s.ends) != 3 {
		t.Fatalf("got %d ends, want 3: %+v", len(s.ends), s.ends)
	}
	for _, e := range s.ends {
		if e.Kind != launcher.CauseNone || e.Code != 0 || e.Usage.PeakBytes == 0 {
			t.Errorf("end %+v", e)
		}
	}
	for _, key := range []string{"0.1", "1.1", "2.1"} {
		if got := string(s.out[key]); got != "out\n" {
			t.Errorf("%s: got %q, want out", key, got)
		}
		if got := string(s.out[strings.Replace(key, ".1", ".2", 1)]); got != "err\n" {
			t.Errorf("stderr of %s: got %q, want err", key, got)
		}
	}
	if s.end == nil || s.end.Offset != 24 {
		t.Errorf("end of output: %+v, want 24 bytes", s.end)
	}
}

func TestKeeperDoesManyJobs(t *testing.T) {
	b := newBoss(t)
	before := 0
	for i := range 20 {
		if i == 1 {
			before = fdCount(t, b.k.PID)
		}
		o := newOrder(2, argv("print", "hello\n")...)
		o.IO.StdinMode = launcher.StdinAll
		b.run(o)
		if s := b.untilDone(); len(s.ends) != 2 || string(s.out["1.1"]) != "hello\n" {
			t.Fatalf("ends %+v, out %q", s.ends, s.out)
		}
		b.forget()
	}
	if after := fdCount(t, b.k.PID); after > before {
		out, _ := exec.Command("ls", "-l", fmt.Sprintf("/proc/%d/fd", b.k.PID)).Output()
		t.Errorf("%d descriptors before, %d after 20 jobs:\n%s", before, after, out)
	}
}

func fdCount(t *testing.T, pid int) int {
	t.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestKeeperWaitsForGo(t *testing.T) {
	b := newBoss(t)
	o := newOrder(1, argv("print", "x\n")...)
	o.start.Go = false
	b.run(o)
	s := b.until("Ready", func(s seen) bool { return s.ready != nil })
	if s.ready.Err != nil || s.started != nil {
		t.Fatalf("ready %+v, started %+v", s.ready, s.started)
	}
	b.deed(launcher.Deed{Kind: launcher.DeedGo})
	b.untilDone()
	b.forget()
}

func TestKeeperStoppedBeforeGo(t *testing.T) {
	b := newBoss(t)
	o := newOrder(2, argv("print", "x\n")...)
	o.start.Go = false
	b.run(o)
	b.until("Ready", func(s seen) bool { return s.ready != nil })
	b.deed(launcher.Deed{Kind: launcher.DeedStop, Signal: int32(unix.SIGTERM)})
	s := b.untilDone()
	if s.started != nil || len(s.out) != 0 {
		t.Errorf("started %+v, out %q", s.started, s.out)
	}
	b.forget()
}

func TestRankArgumentsAndEnvironmentAreBytes(t *testing.T) {
	b := newBoss(t)
	o := newOrder(1, argv("args", "a b", "line\nbreak", "", "\xff\xfe", "%t")...)
	b.run(o)
	s := b.untilDone()
	if got, want := string(s.out["0.1"]), `["a b" "line\nbreak" "" "\xff\xfe" "%t"]`+"\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.forget()

	o = newOrder(1, argv("env", "MULTI", "RAW", "TWICE")...)
	o.Env = append(o.Env, "MULTI=one\ntwo", "RAW=\xff", "TWICE=1")
	o.Programs[0].Env = []string{"TWICE=2"}
	b.run(o)
	s = b.untilDone()
	if got, want := string(s.out["0.1"]), "MULTI=\"one\\ntwo\" true\nRAW=\"\\xff\" true\nTWICE=\"2\" true\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMultiProg(t *testing.T) {
	b := newBoss(t)
	o := newOrder(4)
	o.Programs = []launcher.Program{
		{Argv: argv("print", "task:%t\n"), Expand: true, Ranks: []launcher.Span{{First: 1, Count: 1}, {First: 3, Count: 1}}},
		{Argv: argv("print", "offset:%o\n"), Expand: true, Ranks: []launcher.Span{{First: 0, Count: 1}, {First: 2, Count: 1}}},
	}
	b.run(o)
	s := b.untilDone()
	for key, want := range map[string]string{"0.1": "offset:0\n", "1.1": "task:1\n", "2.1": "offset:1\n", "3.1": "task:3\n"} {
		if got := string(s.out[key]); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestRankEnvironment(t *testing.T) {
	b := newBoss(t)
	o := newOrder(3, argv("env")...)
	o.n = 4
	o.nodes = []launcher.NodeRanks{
		{Node: "n2", Ranks: []launcher.Span{{First: 0, Count: 2}}},
		{Node: "n3", Ranks: []launcher.Span{{First: 2, Count: 2}}},
	}
	o.Programs[0].Ranks = []launcher.Span{{First: 0, Count: 4}}
	o.start.Index = 1
	o.start.GPUs = []string{"nvidia:4", "nvidia:6"}
	o.Env = append(o.Env, "PMI_RANK=7", "PMIX_RANK=7", "OMPI_COMM_WORLD_RANK=7", "OMPI_MCA_ess=x",
		"OMPI_MCA_btl=tcp", "FLUX_JOB_ID=1", "HYDI_CONTROL_FD=3", "FILCH_SECRET_FILE=/x", "FILCH_RANK=99", "MINE=kept")
	b.run(o)
	s := b.untilDone()
	env := map[string]string{}
	for line := range strings.Lines(string(s.out["3.1"])) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if _, twice := env[k]; twice {
			t.Errorf("%s is set twice", k)
		}
		env[k] = v
	}
	for name, want := range map[string]string{
		"FILCH_INSTANCE": "quiet-heron", "FILCH_JOB": b.job.Launch.Ident.Job.String(), "FILCH_RANK": "3", "FILCH_SIZE": "4",
		"FILCH_LOCAL_RANK": "1", "FILCH_LOCAL_SIZE": "2", "FILCH_NODE": "n3", "FILCH_NODES": "2",
		"FILCH_NODELIST": "n[2-3]", "FILCH_ATTEMPT": "1", "FILCH_SOCKET": filepath.Join(b.place.Dir, "launcher.sock"),
		"PMI_FD": "3", "PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1",
		"GFORTRAN_UNBUFFERED_PRECONNECTED": "y", "MINE": "kept", "OMPI_MCA_btl": "tcp",
		"CUDA_VISIBLE_DEVICES": "6",
	} {
		if env[name] != want {
			t.Errorf("%s: got %q, want %q", name, env[name], want)
		}
	}
	for _, name := range []string{"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_MCA_ess", "FLUX_JOB_ID", "HYDI_CONTROL_FD", "FILCH_SECRET_FILE"} {
		if v, ok := env[name]; ok {
			t.Errorf("%s=%s reached the rank", name, v)
		}
	}
}

func TestSlurmEnvironment(t *testing.T) {
	b := newBoss(t)
	o := newOrder(2, argv("env", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_JOB_ID", "SLURM_GTIDS")...)
	o.Slurm = &launcher.Slurm{}
	b.run(o)
	s := b.untilDone()
	want := fmt.Sprintf("SLURM_PROCID=\"1\" true\nSLURM_LOCALID=\"1\" true\nSLURM_NTASKS=\"2\" true\nSLURM_NODELIST=\"n3\" true\n"+
		"SLURM_TASKS_PER_NODE=\"2\" true\nSLURM_JOB_ID=\"%d\" true\nSLURM_GTIDS=\"0,1\" true\n", b.job.Launch.Ident.Job)
	if got := string(s.out["1.1"]); got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

func TestRankState(t *testing.T) {
	b := newBoss(t)
	dir := t.TempDir()
	o := newOrder(1, argv("state")...)
	o.Cwd = dir
	o.Umask = 0o027
	o.Rlimits = []launcher.Rlimit{{Resource: unix.RLIMIT_CORE, Soft: 0}}
	b.run(o)
	s := b.untilDone()
	got := string(s.out["0.1"])
	if want := "group=true session=false cwd=" + dir + " umask=0027 core=0 death=9\nSigIgn:\t0000000000000000\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRankDescriptors(t *testing.T) {
	b := newBoss(t)
	for mpi, want := range map[string]string{
		"auto": "0 /dev/null\n1 pipe\n2 pipe\n3 socket\n",
		"none": "0 /dev/null\n1 pipe\n2 pipe\n",
	} {
		o := newOrder(2, "/bin/sh", "-c", "ls -l /proc/$$/fd; true")
		o.MPI = mpi
		b.run(o)
		s := b.untilDone()
		var got strings.Builder
		for line := range strings.Lines(string(s.out["1.1"])) {
			f := strings.Fields(line)
			if len(f) < 3 || f[len(f)-3] == "10" { // the shell's own
				continue
			}
			kind, _, _ := strings.Cut(f[len(f)-1], ":")
			got.WriteString(f[len(f)-3] + " " + kind + "\n")
		}
		if got.String() != want {
			t.Errorf("mpi=%s: got %q, want %q", mpi, got.String(), want)
		}
		b.forget()
	}
}

// TestRankLimits sets limits that would harm the keeper if it took them on
// itself.
func TestRankLimits(t *testing.T) {
	b := newBoss(t)
	o := newOrder(2, "/bin/sh", "-c", "ulimit -v; ulimit -f; ulimit -n; ulimit -d")
	o.Rlimits = []launcher.Rlimit{
		{Resource: unix.RLIMIT_AS, Soft: 512 << 20},
		{Resource: unix.RLIMIT_FSIZE, Soft: 1 << 20},
		{Resource: unix.RLIMIT_NOFILE, Soft: 100},
		{Resource: unix.RLIMIT_DATA, Soft: 256 << 20},
	}
	b.run(o)
	s := b.untilDone()
	for _, key := range []string{"0.1", "1.1"} {
		if got, want := string(s.out[key]), "524288\n2048\n100\n262144\n"; got != want {
			t.Errorf("%s: got %q, want %q (%+v)", key, got, want, s.ends)
		}
	}
	b.forget()
	o = newOrder(1, "/bin/sh", "-c", "ulimit -n")
	b.run(o)
	if s = b.untilDone(); string(s.out["0.1"]) == "100\n" {
		t.Errorf("the limit of one job reached the next")
	}
}

func TestKeeperRefusesWhatCannotStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	b := newBoss(t)
	for _, c := range []struct {
		name   string
		change func(*order)
		cause  launcher.CauseKind
		kind   filch.Kind
		text   string
	}{
		{"cwd-missing", func(o *order) { o.Cwd = dir + "/nowhere" }, launcher.CauseOurs, filch.NotFound, "nowhere: not on n3"},
		{"cwd-is-a-file", func(o *order) { o.Cwd = write("f", "", 0o600) }, launcher.CauseOurs, filch.Invalid, "not a directory"},
		{"program-missing", func(o *order) { o.Programs[0].Argv = []string{"./nosuch"} }, launcher.CauseNotFound, filch.NotFound, "cannot run ./nosuch: not on n3"},
		{"program-not-in-path", func(o *order) { o.Programs[0].Argv = []string{"nosuch-program"} }, launcher.CauseNotFound, filch.NotFound, "cannot run nosuch-program: not on n3 (looked in"},
		{"program-is-a-folder", func(o *order) { o.Programs[0].Argv = []string{dir} }, launcher.CauseNotExec, filch.Denied, "is a directory"},
		{"program-empty-name", func(o *order) { o.Programs[0].Argv = []string{""} }, launcher.CauseNotFound, filch.Invalid, "empty program name"},
		{"program-not-executable", func(o *order) { o.Programs[0].Argv = []string{write("plain", "#!/bin/sh\n", 0o644)} }, launcher.CauseNotExec, filch.Denied, "permission denied"},
		{"interpreter-missing", func(o *order) { o.Programs[0].Argv = []string{write("script", "#!/opt/no/python -u\n", 0o755)} }, launcher.CauseNotFound, filch.NotFound, "its interpreter /opt/no/python is not on n3"},
		{"carriage-return", func(o *order) { o.Programs[0].Argv = []string{write("dos", "#!/bin/sh\r\n", 0o755)} }, launcher.CauseNotExec, filch.Invalid, "carriage return"},
		{"garbage", func(o *order) { o.Programs[0].Argv = []string{write("bin", "\x01\x00\x02", 0o755)} }, launcher.CauseNotExec, filch.Invalid, "exec format error"},
		{"output-folder-cannot-be-made", func(o *order) { o.IO.Stdout = "/proc/no/out.%t" }, launcher.CauseOurs, filch.NotFound, "cannot write /proc/no/out.0 on n3"},
		{"stdin-missing", func(o *order) { o.IO.StdinMode = launcher.StdinFile; o.IO.Stdin = dir + "/no-input" }, launcher.CauseOurs, filch.NotFound, "cannot read " + dir + "/no-input on n3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOrder(1, "/bin/true")
			c.change(o)
			b.run(o)
			s := b.until("Ready", func(s seen) bool { return s.ready != nil })
			if s.ready.Err == nil || s.ready.Cause != c.cause || s.ready.Err.Kind != c.kind || !strings.Contains(s.ready.Err.Text, c.text) {
				t.Errorf("got %+v (%v), want %q of kind %v, cause %v", s.ready.Err, s.ready.Cause, c.text, c.kind, c.cause)
			}
			b.forget()
		})
	}
}

func TestScriptWithoutInterpreterLine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/job", []byte("echo \"$0 $1 on $FILCH_NODE\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := newBoss(t)
	o := newOrder(1, "./job", "arg")
	o.Cwd = dir
	b.run(o)
	if s := b.untilDone(); string(s.out["0.1"]) != dir+"/job arg on n3\n" {
		t.Errorf("got %q, ends %+v", s.out["0.1"], s.ends)
	}
}

// TestExecFails takes the program away between the check and the exec.
func TestExecFails(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		break_ func(string)
		kind   launcher.CauseKind
		code   int32
	}{
		"gone":        {func(p string) { os.Remove(p) }, launcher.CauseNotFound, 127},
		"not-allowed": {func(p string) { os.Chmod(p, 0o644) }, launcher.CauseNotExec, 126},
	} {
		t.Run(name, func(t *testing.T) {
			p := filepath.Join(dir, name)
			if err := os.WriteFile(p, []byte("#!/bin/sh\necho ran\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			b := newBoss(t)
			o := newOrder(2, p)
			o.start.Go = false
			b.run(o)
			b.until("Ready", func(s seen) bool { return s.ready != nil })
			c.break_(p)
			b.deed(launcher.Deed{Kind: launcher.DeedGo})
			s := b.untilDone()
			if len(s.ends) != 2 || s.ends[0].Kind != c.kind || s.ends[0].Code != c.code || !strings.Contains(s.ends[0].Text, "cannot run "+p) {
				t.Errorf("ends %+v", s.ends)
			}
		})
	}
}

func TestKeeperRefusesAnotherVersion(t *testing.T) {
	b := newBoss(t)
	body, err := wire.EncodeHello(wire.Hello{Role: "launcher"})
	if err != nil {
		t.Fatal(err)
	}
	body[len("filch")+1]++
	b.conn.WriteRaw(wire.KindHello, 0, body)
	b.conn.Flush()
	b.until("the keeper to hang up", func(s seen) bool { return s.gone })
}

// TestSingletonsAreSaid has ranks that look like those of Open MPI started by
// an interpreter: the library is mapped, and nobody asks for the others.
func TestSingletonsAreSaid(t *testing.T) {
	lib := t.TempDir() + "/libmpi.so.40.30.4"
	if err := os.WriteFile(lib, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBoss(t)
	b.run(newOrder(2, argv("map", lib)...))
	s := b.until("the warning", func(s seen) bool { return len(s.warns) > 0 })
	if want := "rank 0 uses Open MPI, which needs PMIx, and none of the 2 ranks on n3 has asked for the others: MPI_Init fails, or each runs alone; try --mpi=pmix"; s.warns[0] != want {
		t.Errorf("got %q, want %q", s.warns[0], want)
	}
	b.stop(unix.SIGKILL, 0)
	b.untilDone()
}

func TestManyRanks(t *testing.T) {
	b := newBoss(t)
	const n = 300
	o := newOrder(n, "/bin/sh", "-c", "read x; echo $FILCH_RANK $FILCH_LOCAL_RANK $x")
	o.IO.StdinMode = launcher.StdinAll
	b.run(o)
	b.stdin(0, "hello\n", true)
	s := b.untilDone()
	if len(s.ends) != n {
		t.Errorf("%d ends", len(s.ends))
	}
	for i := range n {
		if got, want := string(s.out[fmt.Sprintf("%d.1", i)]), fmt.Sprintf("%d %d hello\n", i, i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestBinding(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	var lent []int32
	for c := range int32(1024) {
		if all.IsSet(int(c)) {
			lent = append(lent, c)
		}
	}
	if len(lent) < 2 {
		t.Skip("one core is not enough to bind two ranks apart")
	}
	lent = lent[:2]
	b := newBoss(t)
	o := newOrder(2, "/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status")
	o.start.Processors = []filch.Processor{{CPUs: lent[:1], Core: 0}, {CPUs: lent[1:], Core: 1}}
	o.Bind.Verbose = true
	b.run(o)
	s := b.untilDone()
	for i, c := range lent {
		if got, want := string(s.out[fmt.Sprintf("%d.1", i)]), fmt.Sprintf("Cpus_allowed_list:\t%d\n", c); got != want {
			t.Errorf("rank %d: got %q, want %q", i, got, want)
		}
		want := fmt.Sprintf("cpu-bind=MASK - n3, task %2d %2d [%d]: mask 0x%X set\n", i, i, s.started.PIDs[i], 1<<c)
		if got := string(s.out[fmt.Sprintf("%d.2", i)]); got != want {
			t.Errorf("rank %d: got %q, want %q", i, got, want)
		}
	}
	b.forget()

	o = newOrder(1, "/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status")
	o.Bind = launcher.Bind{Kind: "map_cpu", List: []string{"1023"}}
	b.run(o)
	if s = b.untilDone(); len(s.warns) != 1 || !strings.Contains(s.warns[0], "n3: cannot bind rank 0 to cpus [1023]") || s.ends[0].Code != 0 {
		t.Errorf("warned %q, ends %+v", s.warns, s.ends)
	}
}

// TestKeeperSocketIsPrivate looks at the mode of the socket on which a restarted
// launcher calls.
func TestKeeperSocketIsPrivate(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	b := newBoss(t)
	b.run(newOrder(1, "true"))
	b.untilDone()
	info, err := os.Stat(filepath.Join(b.place.Dir, "keepers", fmt.Sprintf("k%d.sock", b.k.PID)))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("got mode %04o, want 0600", got)
	}
}

// TestKeeperIsReplacedAfterAFlood has a rank fill the keeper's memory: the next
// job is another keeper's, and after a small job it would not be.
func TestKeeperIsReplacedAfterAFlood(t *testing.T) {
	b := newBoss(t)
	o := newOrder(1, argv("pmi", "init", "put:a=b", "finalize")...)
	b.run(o)
	b.untilDone()
	b.forget()
	small := rssKiB(b.k.PID)

	o.Programs[0].Argv = argv("pmi", "init", "flood:50000", "finalize")
	b.run(o)
	b.untilDone()
	t.Logf("the keeper has %d KiB after a small job, %d KiB after the flood", small, rssKiB(b.k.PID))
	hellos := b.now().hellos
	b.deed(launcher.Deed{Kind: launcher.DeedForget})
	if s := b.until("the keeper to leave", func(s seen) bool { return s.gone || s.hellos > hellos }); !s.gone {
		t.Errorf("the keeper is ready for another job, with %d KiB", rssKiB(b.k.PID))
	}
	b.job = launcher.Start{}
}
