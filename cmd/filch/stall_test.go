package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Sizes of the test of a stalled reader. No task prints more than a node keeps.
const (
	stalledTasks = 12
	stalledBytes = 12 << 20 // of a task; all: 144 MiB
	stalledLine  = 100
	// stalledClient bounds the peak of the client's memory: the answers on their way, at most 4
	// MiB (answersMax of package logs), read, decoded and printed; and the program itself.
	stalledClient = 64 << 20
	// stalledOrdered bounds it for a command that first prints in the order of tasks what is there
	// already, of which 16 MiB are in memory (storeMax of package logs).
	stalledOrdered = 96 << 20
	// stalledGrowth bounds the growth of the memory of all launchers together: the answers on
	// their way, and the blocks of kept output being read.
	stalledGrowth = 64 << 20
)

// fillBytes makes the test binary a program that prints numbered lines of 100 bytes, so many bytes
// in all.
const fillBytes = "FILCH_TEST_FILL"

func init() {
	text := os.Getenv(fillBytes)
	if text == "" {
		return
	}
	size, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	w := bufio.NewWriterSize(os.Stdout, 64<<10)
	for i := range size / stalledLine {
		if _, err := fmt.Fprintf(w, "%-*d\n", stalledLine-1, i); err != nil {
			os.Exit(1)
		}
	}
	if w.Flush() != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// A reader of the output of tasks that does not read costs neither the client nor the launchers
// more memory than the named bounds, and holds no task up. When the reader goes on, every line
// comes, once and in order.
func TestAStalledReaderCostsNoMemoryAndNoLine(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := []string{"--env", fillBytes + "=" + strconv.Itoa(stalledBytes), "--array", fmt.Sprintf("0-%d", stalledTasks-1), "--", self}
	for _, c := range []struct {
		name string
		most int64    // memory of the client
		args []string // logs follows a job submitted before
	}{
		{"tag", stalledClient, append([]string{"submit", "--tag"}, command...)},
		{"ungroup", stalledClient, append([]string{"submit", "--tag", "--ungroup"}, command...)},
		{"follow", stalledOrdered, []string{"logs", "-f", "-l"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := shared.launcherMemory(t)
			name := "stalled" + strconv.FormatInt(time.Now().UnixNano(), 36)
			if c.args[0] == "submit" {
				c.args = append([]string{"submit", "-J", name}, c.args[1:]...)
			} else {
				out, err := shared.filch(append([]string{"submit", "-J", name}, command...)...).Output()
				if err != nil {
					t.Fatal(err)
				}
				c.args = append(c.args, strings.TrimSpace(string(out)))
			}
			cmd := shared.filch(c.args...)
			var said bytes.Buffer
			cmd.Stderr = &said
			pipe, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill() }()
			awaitEnded(t, name)
			if peak := memoryOf(t, cmd.Process.Pid, "VmHWM"); peak > c.most {
				t.Errorf("the client of a reader that does not read has taken %d KiB, want at most %d", peak>>10, c.most>>10)
			} else {
				t.Logf("the client has taken %d KiB", peak>>10)
			}
			numbers := readNumbers(t, pipe)
			if err := cmd.Wait(); err != nil || said.Len() > 0 {
				t.Errorf("filch %s: %v\n%s", strings.Join(c.args, " "), err, said.String())
			}
			if len(numbers) != stalledTasks {
				t.Errorf("the output has lines of %d tasks, want %d", len(numbers), stalledTasks)
			}
			for task, n := range numbers {
				if n != stalledBytes/stalledLine {
					t.Errorf("task %s has %d lines, want %d", task, n, stalledBytes/stalledLine)
				}
			}
			if growth := shared.launcherMemory(t) - before; growth > stalledGrowth {
				t.Errorf("the launchers have grown by %d KiB, want at most %d", growth>>10, stalledGrowth>>10)
			}
		})
	}
}

// awaitEnded waits until the newest job of a name has ended well.
func awaitEnded(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		out, err := shared.filch("ps", "-a", "--name", name, "-o", "state").Output()
		if err == nil && strings.HasSuffix(strings.TrimSpace(string(out)), "\nok") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("job %s does not end while nobody reads: %v\n%s", name, err, out)
		}
	}
}

// readNumbers reads numbered lines with labels, and counts the lines of each task. Each line must
// have the next number of its task.
func readNumbers(t *testing.T, r io.Reader) map[string]int {
	t.Helper()
	next, bad := map[string]int{}, 0
	for lines := bufio.NewScanner(r); lines.Scan(); {
		task, text, _ := strings.Cut(lines.Text(), ": ")
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n != next[task] {
			if bad++; bad < 5 {
				t.Errorf("task %s: got line %q, want number %d", task, text, next[task])
			}
		}
		next[task]++
	}
	return next
}

// memoryOf is a line of a process's status, in bytes.
func memoryOf(t *testing.T, pid int, line string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), line+":")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("%s of process %d: %v", line, pid, err)
	}
	return kib << 10
}

// launcherMemory is the peak of the memory of all launchers of the shared instance.
func (w *world) launcherMemory(t *testing.T) (sum int64) {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range commands {
		command, err := os.ReadFile(name)
		if err != nil || !bytes.HasPrefix(command, []byte(w.dir)) && !bytes.Contains(command, []byte(w.dir+"/local/")) {
			continue
		}
		if comm, err := os.ReadFile(filepath.Join(filepath.Dir(name), "comm")); err != nil || !strings.HasPrefix(string(comm), "filchd") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			t.Fatal(err)
		}
		found++
		sum += memoryOf(t, pid, "VmHWM")
	}
	if found < 4 {
		t.Fatalf("found %d launchers, want 4", found)
	}
	return sum
}
