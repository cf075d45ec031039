//go:build root

package faults

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// TestStoreOnAFullDisk fills the disk of one node while clients use the store: what
// they see is one order of events, the others go on without that node, it ends and
// comes back with its disk full as well, what was acknowledged stays, and it is
// whole again when there is room.
func TestStoreOnAFullDisk(t *testing.T) {
	c := up(t, 4, map[int]int{1: 96 << 20})
	h := &history{began: time.Now()}
	end := &until{done: make(chan struct{})}
	for id := range clients {
		u := newUser(c, id)
		end.work.Go(func() { u.load(h, end) })
	}
	w := &writer{u: newUser(c, clients), acknowledged: map[string]string{}, versions: map[string]dht.Version{}}
	for i := range 50 {
		w.write(t, 1, fmt.Sprintf("disk/%d", i), 10*time.Second)
	}
	before := h.len()
	// All that is left, from outside of the host: it is the same file system.
	ballast := filepath.Join(c.Local(1), "ballast")
	fill := c.Hosts[1].Command(t.Context(), "sh", "-c", "dd if=/dev/zero of="+ballast+" bs=64k 2>&1; dd if=/dev/zero bs=1 count=4096 >>"+ballast+" 2>&1; true")
	if out, err := fill.CombinedOutput(); err != nil {
		t.Fatalf("fill the disk: %v: %s", err, out)
	}
	for i := range 100 {
		w.write(t, 2, fmt.Sprintf("disk/%d", i), 20*time.Second)
	}
	if r, err := c.roster(1); err != nil || r.Here.DiskTrouble == "" {
		t.Errorf("the node with the full disk says %+v, %v", r.Here, err)
	}
	c.Signal(1, syscall.SIGKILL)
	for end := time.Now().Add(10 * time.Second); c.Launcher(1) > 0 && time.Now().Before(end); {
		pause()
	}
	if out, err := c.Try(1, "join", filepath.Join(c.Dir, "invitation"), "--slots", strconv.Itoa(c.Slots)); err == nil || !strings.Contains(out, "no space") {
		t.Errorf("a launcher started on a full disk says %q, %v", out, err)
	}
	for i := range 100 {
		w.write(t, 3, fmt.Sprintf("disk/%d", i), 20*time.Second)
	}
	full := h.len() - before
	if out, err := c.Hosts[1].Command(t.Context(), "rm", ballast).CombinedOutput(); err != nil {
		t.Fatalf("free the disk: %v: %s", err, out)
	}
	c.Revive(1)
	c.settled(settleWait)
	for i := range 100 {
		w.write(t, 4, fmt.Sprintf("disk/%d", i), 10*time.Second)
	}
	close(end.done)
	end.work.Wait()
	w.check(t)
	h.check(t)
	t.Logf("figure: %d records written while a disk filled up, none lost; clients did %d operations meanwhile", len(w.acknowledged), full)
}

// TestTasksWithoutRoomForOutput leaves a node's disk no room but that for records:
// its tasks print all the same and end well, and what is missing is told.
func TestTasksWithoutRoomForOutput(t *testing.T) {
	c := up(t, 3, map[int]int{1: 64 << 20})
	ballast := filepath.Join(c.Local(1), "ballast")
	fill := c.Hosts[1].Command(t.Context(), "sh", "-c", `free=$(($(stat -f -c %a "$1") - 2048000 / 4096)); head -c $((free * 4096)) /dev/zero >"$1/ballast"`, "sh", c.Local(1))
	if out, err := fill.CombinedOutput(); err != nil {
		t.Fatalf("fill the disk: %v: %s", err, out)
	}
	const tasks = 60
	job := strings.TrimSpace(c.Must(1, "submit", "--wait", "--array", "0-"+strconv.Itoa(tasks-1), "--", "sh", "-c", "echo out $FILCH_TASK && echo err $FILCH_TASK >&2"))
	cut := 0
	for i := range tasks {
		have := c.task(job, i)
		if have.State != filch.OK.String() {
			t.Errorf("task %d: %+v", i, have)
		}
		if have.Cut != (string(have.Node) == c.Hosts[1].Name) {
			t.Errorf("task %d: its output is cut: %v, on %s", i, have.Cut, have.Node)
		}
		if have.Cut {
			cut++
		}
	}
	if cut == 0 {
		t.Fatal("no task ran on the node without room: this shows nothing")
	}
	said := fmt.Sprintf("the output of %d tasks", cut)
	if cut == 1 {
		said = "the output of 1 task"
	}
	why := "no space for all output of tasks on n2: "
	if out, err := c.Command(t.Context(), 0, "logs", job).CombinedOutput(); err != nil || !strings.Contains(string(out), said+" of job "+job+" is cut or missing: "+why) {
		t.Errorf("logs do not say %q: %s, %v", said, out, err)
	}
	out, _ := c.Try(2, "doctor")
	if !strings.Contains(out, "n2: the disk was too full for "+said) || !strings.Contains(out, "n2: the disk has ") {
		t.Errorf("doctor does not say %q: %s", said, out)
	}
	if out, err := c.Hosts[1].Command(t.Context(), "rm", ballast).CombinedOutput(); err != nil {
		t.Fatalf("free the disk: %v: %s", err, out)
	}
}

// TestGangsWithoutRoomForOutput does the same for gangs over all nodes: every gang ends, no
// output is missing untold, whether the owner's node keeps the output or writes a file, and
// ranks write files of their own on the full disk.
func TestGangsWithoutRoomForOutput(t *testing.T) {
	c := up(t, 3, map[int]int{1: 64 << 20})
	fill := c.Hosts[1].Command(t.Context(), "sh", "-c", `free=$(($(stat -f -c %a "$1") - 2048000 / 4096)); head -c $((free * 4096)) /dev/zero >"$1/ballast"`, "sh", c.Local(1))
	if out, err := fill.CombinedOutput(); err != nil {
		t.Fatalf("fill the disk: %v: %s", err, out)
	}
	const gangs = 20
	c.Must(1, "policy", "mlb,victims=none") // a gang that another node steals is owned by a node with room
	job := strings.TrimSpace(c.Must(1, "submit", "--wait", "-n", "3", "-N", "3", "--array", "0-"+strconv.Itoa(gangs-1), "--", "sh", "-c", "echo out $FILCH_TASK"))
	all, _ := c.Command(t.Context(), 0, "logs", job).Output()
	cut := 0
	for i := range gangs {
		have := c.task(job, i)
		if have.State != filch.OK.String() {
			t.Errorf("gang %d: %+v", i, have)
		}
		lines := strings.Count(string(all), fmt.Sprintf("out %d\n", i))
		if !have.Cut && lines != 3 {
			t.Errorf("gang %d: %d of 3 lines are there, and nothing is told: %+v", i, lines, have)
		}
		if have.Cut {
			cut++
		}
	}
	if cut == 0 {
		t.Fatal("no gang was owned by the node without room: this shows nothing")
	}
	said := "the output of " + filch.Plural(cut, "task")
	if out, err := c.Command(t.Context(), 0, "logs", job).CombinedOutput(); err != nil || !strings.Contains(string(out), said+" of job "+job+" is cut or missing: no space for all output of tasks on n2: ") {
		t.Errorf("logs do not say %q: %s, %v", said, out, err)
	}
	if out, _ := c.Try(2, "doctor"); !strings.Contains(out, "n2: the disk was too full for "+said) {
		t.Errorf("doctor does not say %q: %s", said, out)
	}
	// A file of the owner, and files of ranks.
	if out, err := c.Hosts[1].Command(t.Context(), "sh", "-c", `dd if=/dev/zero of="$1/ballast2" bs=64k 2>&1; dd if=/dev/zero bs=1 count=4096 >>"$1/ballast2" 2>&1; true`, "sh", c.Local(1)).CombinedOutput(); err != nil {
		t.Fatalf("fill the disk: %v: %s", err, out)
	}
	for _, pattern := range []string{"out.%a", "out.%a.%t"} {
		b, err := c.Command(t.Context(), 1, "submit", "--wait", "-n", "3", "-N", "3", "-o", filepath.Join(c.Local(1), pattern), "--", "sh", "-c", "head -c 100000 /dev/zero").CombinedOutput()
		out := string(b)
		why, _ := c.Try(0, "info", "last.0")
		if !strings.Contains(out, "was cut: a disk was full") && !strings.Contains(out, "some output of job") || !strings.Contains(why, "cut: the disk of n2 was full") {
			t.Errorf("-o %s: a full disk is not told: %s, %v: %s", pattern, out, err, why)
		}
	}
	if out, err := c.Hosts[1].Command(t.Context(), "sh", "-c", `rm "$1"/ballast*`, "sh", c.Local(1)).CombinedOutput(); err != nil {
		t.Fatalf("free the disk: %v: %s", err, out)
	}
	c.Must(1, "submit", "--wait", "-n", "3", "-N", "3", "--", "true")
}

// writer writes records that are on disks when that is acknowledged.
type writer struct {
	u            *user
	acknowledged map[string]string
	versions     map[string]dht.Version
}

// write goes on until a record is acknowledged.
func (w *writer) write(t *testing.T, n int, key string, limit time.Duration) {
	t.Helper()
	value := fmt.Sprintf("%s is %d", key, n)
	op := dht.Op{Code: dht.OpSwap, Kind: dht.KindRegister, Key: dht.Key(key), Durable: true, Value: []byte(value), Expect: w.versions[key]}
	for end := time.Now().Add(limit); ; {
		r, asked := w.u.do(op)
		switch {
		case asked && (r.Outcome == dht.Done || r.Outcome == dht.Mismatch && string(r.Value) == value): // by a try that was not answered
			w.acknowledged[key], w.versions[key] = value, r.Version
			return
		case asked && r.Outcome == dht.Mismatch:
			op.Expect = r.Version
		}
		if time.Now().After(end) {
			t.Fatalf("%s could not be written within %v: %+v", key, limit, r)
		}
	}
}

// check asks every launcher for all that was acknowledged.
func (w *writer) check(t *testing.T) {
	t.Helper()
	c := w.u.c
	for key, want := range w.acknowledged {
		for host := range c.Hosts {
			l, err := c.dial(host)
			if err != nil {
				t.Fatal(err)
			}
			rs, err := l.Store(opWait, dht.Op{Code: dht.OpLookup, Key: dht.Key(key), Consistent: true})
			l.Close()
			if err != nil || rs[0].Outcome != dht.Done {
				t.Fatalf("%s asked of %s: %+v, %v", key, c.Hosts[host].Name, rs, err)
			}
			if got := string(rs[0].Value); got != want {
				t.Errorf("%s asked of %s: got %q, want %q", key, c.Hosts[host].Name, got, want)
			}
		}
	}
}

// TestStoreComesBackFromDisk kills every launcher at once: what was acknowledged
// as durable is there when they are started again.
func TestStoreComesBackFromDisk(t *testing.T) {
	c := up(t, 3, nil)
	u := newUser(c, 1)
	const n = 200
	for i := range n {
		r, _ := u.do(dht.Op{Code: dht.OpInsert, Kind: dht.KindRegister, Key: dht.Key(fmt.Sprintf("back/%d", i)), Value: fmt.Append(nil, i), Durable: true})
		if r.Outcome != dht.Done {
			t.Fatalf("insert %d: %+v", i, r)
		}
	}
	for i := range c.Hosts {
		c.Signal(i, syscall.SIGKILL)
	}
	for i := range c.Hosts {
		c.Revive(i)
	}
	c.settled(settleWait)
	for i := range n {
		r, _ := u.do(dht.Op{Code: dht.OpLookup, Key: dht.Key(fmt.Sprintf("back/%d", i)), Consistent: true})
		for end := time.Now().Add(settleWait); r.Outcome == dht.Unknown && time.Now().Before(end); pause() {
			r, _ = u.do(dht.Op{Code: dht.OpLookup, Key: dht.Key(fmt.Sprintf("back/%d", i)), Consistent: true})
		}
		if r.Outcome != dht.Done || string(r.Value) != fmt.Sprint(i) {
			t.Errorf("lookup %d after all were killed: %+v", i, r)
		}
	}
}

// TestOutputOnASmallDisk has tasks print more than the disks of their nodes hold:
// the oldest of it goes, and the launchers keep room for their records.
func TestOutputOnASmallDisk(t *testing.T) {
	const size, tasks = 80 << 20, 270 // of a megabyte each
	c := up(t, 3, map[int]int{0: size, 1: size, 2: size})
	job := strings.TrimSpace(c.Must(0, "submit", "--array", fmt.Sprintf("1-%d", tasks), "--", "sh", "-c", "head -c 1000000 /dev/urandom"))
	info := c.waitTasks(job, 3*time.Minute)
	if n := info.Tasks; n.Total != tasks || n.OK+n.Failed != tasks || n.Failed > tasks/10 {
		t.Errorf("%+v", n)
	}
	for i := range c.Hosts {
		if r, err := c.roster(i); err != nil || r.Here.DiskTrouble != "" {
			t.Errorf("%s says %+v, %v", c.Hosts[i].Name, r.Here, err)
		}
	}
	c.Must(1, "submit", "--wait", "--array", "1-100", "--", "echo", "after")
	kept := c.Must(2, "logs", job)
	if len(kept) == 0 || len(kept) >= tasks*1_000_000 {
		t.Errorf("%d bytes are kept of what was printed", len(kept))
	}
	t.Logf("figure: of %d MB that tasks printed, %d are kept on three disks of %d MB", tasks, len(kept)/1_000_000, size>>20)
}
