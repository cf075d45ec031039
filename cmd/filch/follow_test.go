package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// followLine is the length of a line of the program.
const followLine = 100

// followRate makes the test binary a program that prints so many bytes a second until
// its end: lines of 100 bytes, each with the time of writing; 0: nothing; -1: one line.
const followRate = "FILCH_TEST_PRINT"

func init() {
	text := os.Getenv(followRate)
	if text == "" {
		return
	}
	rate, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	if rate < 0 {
		fmt.Printf("%-*d\n", followLine-1, time.Now().UnixNano())
		os.Exit(0)
	}
	if rate == 0 {
		<-time.After(time.Hour) // the task is cancelled
		os.Exit(0)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	var b []byte
	for began, n := time.Now(), 0; ; {
		now := <-tick.C
		for b = b[:0]; n < int(now.Sub(began).Seconds()*float64(rate)); n += followLine {
			b = fmt.Appendf(b, "%-*d\n", followLine-1, now.UnixNano())
		}
		if _, err := os.Stdout.Write(b); err != nil {
			os.Exit(1)
		}
	}
}

// BenchmarkFollow follows a task from node n1 or n3; n1 is the task's node. An operation is
// a second of the task's output. CPU is of all processes of the instance and of the follower,
// less the CPU while nobody follows, in percent of a core; the latency is from the write of
// a line to the read of the line.
func BenchmarkFollow(b *testing.B) {
	if err := shared.instance(); err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for _, rate := range []int{0, 1 << 10, 1 << 20, 8 << 20} {
		for _, node := range []string{"n1", "n3"} {
			b.Run("node="+node+"/bytes="+strconv.Itoa(rate), func(b *testing.B) { follow(b, self, node, rate) })
		}
	}
}

// BenchmarkTag measures how late submit shows a line of a task on n1 to a client of n1 or n3: of
// tasks that print a line and end, one at a time (`--tag`), and of a task that prints 1 MB a second
// (`--tag --ungroup`).
func BenchmarkTag(b *testing.B) {
	if err := shared.instance(); err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		rate int
		args []string
	}{
		{"ended", -1, []string{"--array", "1-1000000", "-j", "1"}},
		{"ungroup", 1 << 20, []string{"--ungroup"}},
	} {
		for _, node := range []string{"n1", "n3"} {
			b.Run(c.name+"/node="+node, func(b *testing.B) {
				name := "tag" + strconv.FormatInt(time.Now().UnixNano(), 36)
				args := append([]string{"--node", node, "submit", "-w", "n1", "-J", name, "--tag", "--env", followRate + "=" + strconv.Itoa(c.rate)}, c.args...)
				cmd := shared.filch(append(args, "--", self)...)
				pipe, err := cmd.StdoutPipe()
				if err != nil {
					b.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				defer func() {
					_ = shared.filch("cancel", "--name", name).Run()
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
				}()
				l := &lateness{b: b, lines: bufio.NewReaderSize(pipe, 1<<20)}
				l.catchUp()
				for b.Loop() {
					l.read(time.Now().Add(time.Second))
				}
				l.report()
				if l.n == 0 {
					b.Fatal("no line came")
				}
			})
		}
	}
}

// lateness reads lines with the times of writing.
type lateness struct {
	b          *testing.B
	lines      *bufio.Reader
	worst, sum time.Duration
	n          int
}

// read reads lines until a time, perhaps one more.
func (l *lateness) read(until time.Time) {
	for time.Now().Before(until) {
		line, err := l.lines.ReadBytes('\n')
		if err != nil {
			l.b.Fatal(err)
		}
		if i := bytes.Index(line, []byte(": ")); i >= 0 { // a label
			line = line[i+2:]
		}
		at, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
		if err != nil || len(line) != followLine {
			continue // a reader of a flood misses the middle
		}
		late := time.Since(time.Unix(0, at))
		l.worst, l.sum, l.n = max(l.worst, late), l.sum+late, l.n+1
	}
}

// catchUp reads what was printed before the reader came.
func (l *lateness) catchUp() {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		l.worst = 0
		if l.read(time.Now().Add(500 * time.Millisecond)); l.worst < 300*time.Millisecond {
			break
		}
	}
	l.worst, l.sum, l.n = 0, 0, 0
}

func (l *lateness) report() {
	l.b.ReportMetric(float64(l.sum.Milliseconds())/float64(max(l.n, 1)), "ms-mean")
	l.b.ReportMetric(float64(l.worst.Milliseconds()), "ms-worst")
}

func follow(b *testing.B, self, node string, rate int) {
	submit := shared.filch("--node", "n1", "submit", "--env", followRate+"="+strconv.Itoa(rate), "--", self)
	out, err := submit.Output()
	if err != nil {
		b.Fatal(err)
	}
	job := strings.TrimSpace(string(out))
	defer func() { _ = shared.filch("cancel", job).Run() }()
	idle, since := shared.cpu(b, submit.Process.Pid), time.Now()
	alone := time.NewTimer(3 * time.Second)
	<-alone.C
	idle = time.Duration(float64(shared.cpu(b, submit.Process.Pid)-idle) / time.Since(since).Seconds())
	logs := shared.filch("--node", node, "logs", "-f", job)
	pipe, err := logs.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := logs.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = logs.Process.Kill(); _ = logs.Wait() }()
	l := &lateness{b: b, lines: bufio.NewReaderSize(pipe, 1<<20)}
	read := l.read
	if rate == 0 {
		read = func(until time.Time) { <-time.After(time.Until(until)) }
	} else {
		l.catchUp()
	}
	busy, begun := shared.cpu(b, logs.Process.Pid), time.Now()
	for b.Loop() {
		read(time.Now().Add(time.Second))
	}
	took := time.Since(begun)
	b.ReportMetric(100*((shared.cpu(b, logs.Process.Pid)-busy).Seconds()/took.Seconds()-idle.Seconds()), "%core")
	l.report()
	b.ReportMetric(float64(l.n)*followLine/took.Seconds(), "B/s")
}

// cpu is the CPU time of the launchers, keepers and runners, and of one more process.
func (w *world) cpu(b *testing.B, more int) (sum time.Duration) {
	b.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range commands {
		command, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(command, []byte(w.dir+"/local/")) && name != fmt.Sprintf("/proc/%d/cmdline", more) {
			continue
		}
		threads, _ := filepath.Glob(filepath.Dir(name) + "/task/*/schedstat")
		for _, t := range threads {
			var ns int64
			if text, err := os.ReadFile(t); err == nil {
				_, _ = fmt.Sscan(string(text), &ns)
			}
			sum += time.Duration(ns)
		}
	}
	return sum
}
