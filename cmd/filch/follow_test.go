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
// its end: lines of 100 bytes, each with the time of writing; 0: nothing.
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
	lines := bufio.NewReaderSize(pipe, 1<<20)
	worst, sum, n := time.Duration(0), time.Duration(0), 0
	read := func(until time.Time) {
		if rate == 0 {
			<-time.After(time.Until(until))
			return
		}
		for time.Now().Before(until) {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				b.Fatal(err)
			}
			at, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
			if err != nil || len(line) != followLine {
				continue // a reader of a flood misses the middle
			}
			late := time.Since(time.Unix(0, at))
			worst, sum, n = max(worst, late), sum+late, n+1
		}
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); { // catches up
		worst = 0
		if read(time.Now().Add(500 * time.Millisecond)); worst < 300*time.Millisecond {
			break
		}
	}
	worst, sum, n = 0, 0, 0
	busy, begun := shared.cpu(b, logs.Process.Pid), time.Now()
	for b.Loop() {
		read(time.Now().Add(time.Second))
	}
	took := time.Since(begun)
	b.ReportMetric(100*((shared.cpu(b, logs.Process.Pid)-busy).Seconds()/took.Seconds()-idle.Seconds()), "%core")
	b.ReportMetric(float64(sum.Milliseconds())/float64(max(n, 1)), "ms-mean")
	b.ReportMetric(float64(worst.Milliseconds()), "ms-worst")
	b.ReportMetric(float64(n)*followLine/took.Seconds(), "B/s")
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
