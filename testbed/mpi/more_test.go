//go:build root

package mpi_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// TestPMI2 runs programs of Slurm's PMI-2 library over two hosts.
func TestPMI2(t *testing.T) {
	c := up(t, 2, 2)
	r := c.run(20*time.Second, "-n", "4", "-N", "2", program(t, "pmi2"))
	if r.code != 0 || strings.Count(r.stdout, "right\n") != 4 {
		t.Error(r)
	}
	for rank := range 4 {
		if want := fmt.Sprintf("rank %d of 4 map (vector,(0,2,2))", rank); !strings.Contains(r.stdout, want) {
			t.Errorf("%q does not contain %q", r.stdout, want)
		}
	}
}

// TestJobsSideBySide has jobs of the same program on the same hosts at once.
func TestJobsSideBySide(t *testing.T) {
	c := up(t, 2, 4)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			laps := strconv.Itoa(10 + i)
			r := c.launch(i%2, time.Minute, "", "run", "-n", "2", "-N", "2", program(t, "ring"), laps).wait()
			if want := fmt.Sprintf("ring of 2: token %d, want %d\n", 2*(10+i), 2*(10+i)); r.code != 0 || r.stdout != want {
				t.Errorf("job %d: %v, want %q", i, r, want)
			}
		})
	}
	wg.Wait()
	c.whole(10*time.Second, 2)
}

// TestMPMD has two programs in one job, and more than one rank of each.
func TestMPMD(t *testing.T) {
	c := up(t, 2, 2)
	r := c.run(time.Minute, "-n", "2", program(t, "hellow"), ":", "-n", "2", program(t, "late"), "0", "mute")
	if r.code != 0 || strings.Count(r.stdout, " of 4\n") != 2 {
		t.Error(r)
	}
}

// TestVirtual has several launchers on one host: each is a node of its own.
func TestVirtual(t *testing.T) {
	c := alone(t)
	c.Must(0, "up", "--instance", c.Instance, "--nodes", "2", "--slots", "2")
	r := c.run(time.Minute, "-n", "4", "-N", "2", program(t, "hello"))
	if r.code != 0 {
		t.Error(r)
	}
	hellos(t, r.stdout, []int32{0, 0, 1, 1}, []string{"n1", "n2"})
	c.Must(0, "down")
	for end := time.Now().Add(2 * time.Second); ; pause() { // the last of them may be about to end
		left := c.Hosts[0].Processes()
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("%d processes are left 2 s after filch down", len(left))
			break
		}
	}
}

// TestFlood has a rank write much more than anybody holds, to a reader that
// stands still for a while: nothing is lost, and nobody grows.
func TestFlood(t *testing.T) {
	const megabyteMost = 100
	megabytes := 128
	if rig.Full() {
		megabytes = 2 << 10
	}
	c := up(t, 3, 1)
	ctx := t.Context()
	cmd := c.Command(ctx, 0, "run", "-n", "2", "-w", "n2,n3", program(t, "flood"), strconv.Itoa(megabytes))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	most := map[string]int{}
	look := func() {
		for i := range c.Hosts {
			for _, pid := range append(c.keepers(i), c.launcher(i)) {
				name := fmt.Sprintf("%d on %s", pid, c.Hosts[i].Name)
				most[name] = max(most[name], peakMB(pid))
			}
		}
		most["client"] = max(most["client"], peakMB(cmd.Process.Pid))
	}
	r := bufio.NewReaderSize(out, 1<<20)
	lines := 0
	for ; ; lines++ {
		l, err := r.ReadSlice('\n')
		if err == io.EOF {
			break
		}
		if want := fmt.Sprintf("%063d\n", lines); err != nil || string(l) != want {
			t.Fatalf("line %d is %q, %v, want %q", lines, l, err, want)
		}
		if lines%(64<<14) == 1000 {
			look()
		}
		if lines == 1000 {
			<-time.After(2 * time.Second) // the reader stands still
			look()
		}
	}
	if err := cmd.Wait(); err != nil || lines != megabytes<<14 {
		t.Errorf("%d lines came of %d, %v", lines, megabytes<<14, err)
	}
	names := make([]string, 0, len(most))
	for name, mb := range most {
		names = append(names, fmt.Sprintf("%s %d MB", name, mb))
		if mb > megabyteMost {
			t.Errorf("process %s grew to %d MB", name, mb)
		}
	}
	slices.Sort(names)
	t.Log(strings.Join(names, ", "))
	c.whole(10*time.Second, 3)
}

// peakMB is the most memory that a process has had.
func peakMB(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	kb, _ := strconv.Atoi(f[0])
	return kb >> 10
}

// TestOutputFiles has every rank write its own file, on the node where it is.
func TestOutputFiles(t *testing.T) {
	c := up(t, 2, 1)
	r := c.run(time.Minute, "-n", "2", "-N", "2", "-o", filepath.Join(c.Dir, "out.%t.%N"), program(t, "hello"))
	if r.code != 0 || r.stdout != "" {
		t.Error(r)
	}
	for rank, h := range c.Hosts {
		b, err := os.ReadFile(filepath.Join(c.Dir, fmt.Sprintf("out.%d.%s", rank, h.Name)))
		if want := fmt.Sprintf("rank %d of 2 on %s shared 1\n", rank, h.Name); err != nil || string(b) != want {
			t.Errorf("the file of rank %d has %q, %v, want %q", rank, b, err, want)
		}
	}
}
