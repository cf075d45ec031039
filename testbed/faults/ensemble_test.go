//go:build root

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/mpi"
	"github.com/filch-hpc/filch/testbed/rig"
)

// Sizes of an ensemble.
const (
	memberRanks  = 4
	memberRounds = 8  // sums of a member
	memberPause  = 20 // ms after each
)

// ensembleLimit is how long an ensemble may take, at two members at a time and at one.
var ensembleLimit = rig.Sized(4*time.Minute, 25*time.Minute)

// TestEnsembles runs ensembles of MPI programs on four hosts, and kills the launchers of two
// of them in the middle. "return" kills the launchers alone, both at once, and starts them
// again 3 s later. "die" kills all processes of one host, then of the other. The job was
// submitted on the first of the four hosts.
func TestEnsembles(t *testing.T) {
	for _, e := range []ensemble{
		{library: mpi.MPICH, slots: 2, victims: []int{1, 2}},
		{library: mpi.OpenMPI, slots: 2, victims: []int{0, 2}, die: true},
		{library: mpi.MPICH, slots: 2, once: true, victims: []int{0, 1}},
		{library: mpi.OpenMPI, slots: 4, once: true, victims: []int{1, 2}, die: true},
		{library: mpi.MPICH, slots: 2, victims: []int{0, 1}, die: true, full: true},
		{library: mpi.OpenMPI, slots: 4, victims: []int{0, 2}, full: true},
		{library: mpi.MPICH, slots: 2, once: true, victims: []int{0, 2}, die: true, full: true},
		{library: mpi.OpenMPI, slots: 2, once: true, victims: []int{1, 2}, full: true},
	} {
		if !e.full || rig.Full() {
			t.Run(e.name(), func(t *testing.T) { e.test(t) })
		}
	}
}

// ensemble is a job of members, and the launchers that are killed under the job.
type ensemble struct {
	library string // its compiler
	slots   int    // of each host: with 2, each member takes slots of several hosts
	once    bool
	victims []int // hosts
	die     bool
	full    bool // in full size only

	c       *cluster
	members int
	marks   string // the folder of the members' marks
	job     string
}

func (e *ensemble) name() string {
	name := strings.TrimPrefix(filepath.Ext(e.library), ".")
	if e.once {
		name += "-once"
	}
	if slices.Contains(e.victims, 0) {
		name += "-submitter"
	}
	if e.die {
		return name + "-die"
	}
	return name + "-return"
}

func (e *ensemble) test(t *testing.T) {
	e.c, e.members = &cluster{rig.New(t, "faults", e.slots)}, rig.Sized(40, 500)
	e.c.Open(4)
	e.c.Start()
	e.c.settled(settleWait)
	e.marks = filepath.Join(e.c.Dir, "marks")
	err := mpi.Build(e.c.Dir, e.library, "member")
	if err == nil {
		err = os.Mkdir(e.marks, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.c.Extra = []string{"OMPI_MCA_mpi_yield_when_idle=1"}
	args := []string{"submit", "-n", strconv.Itoa(memberRanks), "--array", fmt.Sprintf("1-%d", e.members), "--time", "2m"}
	if e.once {
		args = append(args, "--once")
	}
	args = append(args, "--", filepath.Join(e.c.Dir, "member"), "{}", e.marks, strconv.Itoa(memberRounds), strconv.Itoa(memberPause))
	began := time.Now()
	e.job = strings.TrimSpace(e.c.Must(0, args...))
	e.strike()
	n := e.c.waitTasks(e.job, ensembleLimit).Tasks
	took := time.Since(began)
	if n.OK+n.Lost != int32(e.members) || n.Total != int32(e.members) || !e.once && n.Lost > 0 {
		t.Errorf("%d members, and so they ended: %+v\n%s", e.members, n, e.failed())
	}
	e.check(took, int(n.Lost))
}

// failed describes the first member that ended badly.
func (e *ensemble) failed() string {
	for _, task := range e.tasks() {
		if task.State == "failed" || task.State == "killed" {
			name := fmt.Sprintf("%s.%d", e.job, task.Index)
			return e.c.Must(e.asked(), "info", name) + e.c.Must(e.asked(), "logs", "-l", name)
		}
	}
	return ""
}

// struck is how many members have ended at the first kill, and how many more at the second.
func (e *ensemble) struck() int { return e.members / 4 }

// strike kills two launchers while members run on their hosts.
func (e *ensemble) strike() {
	c := e.c
	c.T.Helper()
	if !e.die {
		e.await(e.struck(), nil, e.victims)
		for _, v := range e.victims {
			c.Signal(v, syscall.SIGKILL)
		}
		<-time.After(returnsAfter)
		for _, v := range e.victims {
			c.Revive(v)
		}
		c.settled(settleWait)
		return
	}
	for i, v := range e.victims {
		for hit := false; !hit; {
			e.await((i+1)*e.struck(), e.victims[:i], e.victims[i:i+1])
			c.Hosts[v].SignalAll(syscall.SIGSTOP)
			if hit = e.running(e.victims[:i])[c.Hosts[v].Name] > 0; !hit {
				c.Hosts[v].SignalAll(syscall.SIGCONT)
			}
		}
		c.Hosts[v].KillAll()
		last := i+1 == len(e.victims)
		if !last { // else all members may have ended before the next host dies
			c.Must(e.asked(), "hold", e.job)
		}
		c.settledWithout(settleWait, e.victims[:i+1]...)
		if !last {
			c.Must(e.asked(), "release", e.job)
		}
	}
}

// returnsAfter is how long launchers are away.
const returnsAfter = 3 * time.Second

// await waits until so many members have ended and ranks run on each of the hosts. On the
// dead hosts there are none.
func (e *ensemble) await(ended int, dead, hosts []int) {
	e.c.T.Helper()
	done := 0
	for end := time.Now().Add(ensembleLimit); time.Now().Before(end); pause() {
		done = 0
		for _, m := range e.read() {
			done += min(1, len(m.ends()))
		}
		running := e.running(dead)
		idle := slices.ContainsFunc(hosts, func(i int) bool { return running[e.c.Hosts[i].Name] == 0 })
		if done >= ended && !idle {
			return
		}
	}
	e.c.T.Fatalf("after %v %d of %d members have ended, and %v ranks run on hosts; want %d, and ranks on hosts %v: %s",
		ensembleLimit, done, e.members, e.running(dead), ended, hosts, e.c.Must(e.asked(), "explain", e.job))
}

// running counts the ranks that have begun and not ended, by hosts.
func (e *ensemble) running(dead []int) map[string]int {
	e.c.T.Helper()
	n := map[string]int{}
	for _, m := range e.read() {
		for _, a := range m.runs {
			if slices.ContainsFunc(dead, func(i int) bool { return a.on(e.c.Hosts[i].Name) }) {
				continue
			}
			for rank, host := range a.begun {
				if !a.ended[rank] {
					n[host]++
				}
			}
		}
	}
	return n
}

// check holds the marks of the members against the records of their tasks and the output;
// the job tells of so many lost members.
func (e *ensemble) check(took time.Duration, told int) {
	t := e.c.T
	t.Helper()
	var again, maybe, never, lost int
	have := e.tasks()
	tells, all := e.c.tells(e.job), e.read()
	for i := 1; i <= e.members; i++ {
		m, task := all[i], have[i-1]
		if m.beside > 0 {
			t.Errorf("member %d: %d ranks began while the same rank of another attempt lived", i, m.beside)
		}
		starts := len(m.runs)
		switch {
		case starts > 1 && e.once:
			t.Errorf("member %d runs once, and was started %d times", i, starts)
		case starts > int(task.Attempts):
			again, maybe = again+1, maybe+1
			tells(i, starts)
		case starts > 1:
			again++
		}
		if task.State == "ok" && len(m.ends()) == 0 {
			t.Errorf("member %d is ok, and no attempt of it ended well: %+v", i, *m)
		}
		if task.State == "lost" {
			lost++
			if starts == 0 {
				never++
			}
		}
	}
	if lost != told {
		t.Errorf("filch tasks tells of %d lost members, the job of %d", lost, told)
	}
	if e.die && again+lost == 0 {
		t.Error("two hosts with ranks died, and no member is lost or was started again")
	}
	missing := e.logs(have)
	t.Logf("figure: %s: %d members of %d ranks in %.0f s: %d lost, %d of them never started, %d started again, %d of them perhaps; output of %d is away with its node",
		e.name(), e.members, memberRanks, took.Seconds(), lost, never, again, maybe, missing)
}

// tasks are the records of the members.
func (e *ensemble) tasks() (all []launcher.Task) {
	e.c.T.Helper()
	out := e.c.Must(e.asked(), "tasks", e.job, "--json")
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != e.members {
		e.c.T.Fatalf("filch tasks --json: %d of %d members, %v: %.300s", len(all), e.members, err, out)
	}
	slices.SortFunc(all, func(a, b launcher.Task) int { return int(a.Index - b.Index) })
	return all
}

// asked is a host that no ensemble strikes.
func (e *ensemble) asked() int { return len(e.c.Hosts) - 1 }

// said is a line of the output of a member; attempts after the first are marked.
var said = regexp.MustCompile(`^\d+\.(\d+)\.0(?: \(attempt (\d+)\))?: (member \d+ of \d+ ranks: -?\d+, \d+ wrong)$`)

// logs compares the output that is kept of the members that ended well with what they have
// to print, and counts those whose output is on a host that died. A member of which an
// earlier attempt was lost at its very end has printed more than once.
func (e *ensemble) logs(have []launcher.Task) (missing int) {
	t := e.c.T
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := e.c.Command(ctx, e.asked(), "logs", "-l", e.job)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, _ := cmd.Output() // fails where output is away, and says so
	lines := map[int][]string{}
	for line := range strings.Lines(string(out)) {
		f := said.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if f == nil {
			t.Errorf("a member printed %q", line)
			continue
		}
		k, _ := strconv.Atoi(f[1])
		if mark := f[2]; mark != "" {
			if n, _ := strconv.Atoi(mark); n < 2 || k >= len(have) || int32(n) > record.Starts(have[k].Attempts, have[k].Maybe) {
				t.Errorf("a member printed %q in an attempt that its record does not have", line)
			}
		}
		lines[k] = append(lines[k], f[3])
	}
	for k, task := range have {
		index := k + 1
		sum := memberRanks*(1000*index+10*(memberRounds-1)) + memberRanks*(memberRanks-1)/2
		want := fmt.Sprintf("member %d of %d ranks: %d, 0 wrong", index, memberRanks, sum)
		got := lines[k]
		died := e.die && slices.Contains(e.victims, e.c.index(task.Node))
		switch {
		case len(got) == 0 && task.State == "ok" && died:
			missing++
			if !strings.Contains(errs.String(), string(task.Node)) {
				t.Errorf("member %d: its output was on %s, and filch logs says: %s", index, task.Node, errs.String())
			}
		case len(got) == 0 && task.State == "ok":
			t.Errorf("member %d ended well on %s, and has no output: %s", index, task.Node, errs.String())
		case slices.ContainsFunc(got, func(s string) bool { return s != want }):
			t.Errorf("member %d printed %q, want %q", index, got, want)
		}
	}
	return missing
}

// member is what the marks say of a member.
type member struct {
	runs   map[string]*attempt // by the ids of its runs
	beside int
}

// attempt is a start of a member.
type attempt struct {
	number string         // FILCH_ATTEMPT
	begun  map[int]string // the host of a rank
	ended  map[int]bool
}

// ends are the attempts of which all ranks ended well.
func (m *member) ends() (all []string) {
	for _, a := range m.runs {
		if len(a.ended) == memberRanks {
			all = append(all, a.number)
		}
	}
	return all
}

// on reports whether a rank began on the host.
func (a *attempt) on(host string) bool {
	return slices.Contains(slices.Collect(maps.Values(a.begun)), host)
}

// read reads the marks of all members.
func (e *ensemble) read() map[int]*member {
	t := e.c.T
	t.Helper()
	all := map[int]*member{}
	for i := 1; i <= e.members; i++ {
		all[i] = &member{runs: map[string]*attempt{}}
	}
	text, err := os.ReadFile(filepath.Join(e.marks, "marks"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 6 {
			t.Fatalf("a mark says %q", line)
		}
		index, err := strconv.Atoi(f[0])
		rank, bad := strconv.Atoi(f[3])
		m := all[index]
		if err != nil || bad != nil || m == nil {
			t.Fatalf("a mark says %q", line)
		}
		a := m.runs[f[1]]
		if a == nil {
			a = &attempt{number: f[2], begun: map[int]string{}, ended: map[int]bool{}}
			m.runs[f[1]] = a
		}
		switch f[4] {
		case "begin":
			if a.begun[rank] != "" {
				t.Errorf("rank %d of run %s of member %d began twice", rank, f[1], index)
			}
			a.begun[rank] = f[5]
		case "end":
			a.ended[rank] = true
		case "beside":
			m.beside++
		}
	}
	return all
}
