package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
)

// BenchmarkKeeper measures a job of `true` from the Start to the last
// RanksEnded, on a keeper that is warm.
func BenchmarkKeeper(b *testing.B) {
	for _, n := range []int32{1, 4, 16} {
		b.Run("ranks="+strconv.Itoa(int(n)), func(b *testing.B) {
			var all []time.Duration
			var rss int
			for b.Loop() {
				b.StopTimer()
				boss := newRawBoss(b)
				rss = rssKiB(boss.k.PID)
				o := newOrder(n, "/bin/true")
				b.StartTimer()
				all = append(all, boss.timeRun(o, int(n)))
				b.StopTimer()
				boss.deed(launcher.Deed{Kind: launcher.DeedForget})
				boss.conn.Close()
				boss.k.Wait()
				b.StartTimer()
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "median-us/job")
			b.ReportMetric(float64(all[0].Microseconds()), "least-us/job")
			b.ReportMetric(float64(rss), "warm-KiB")
		})
	}
}

// BenchmarkJobs measures one job after another on one keeper, with the CPU time
// that the keeper itself takes.
func BenchmarkJobs(b *testing.B) {
	for _, n := range []int32{1, 4, 16} {
		b.Run("ranks="+strconv.Itoa(int(n)), func(b *testing.B) {
			boss := newRawBoss(b)
			var all []time.Duration
			before := cpuNS(boss.k.PID)
			for b.Loop() {
				all = append(all, boss.timeRun(newOrder(n, "/bin/true"), int(n)))
				boss.deed(launcher.Deed{Kind: launcher.DeedForget})
				boss.readUntil(wire.KindHello)
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "median-us/job")
			b.ReportMetric(float64(all[0].Microseconds()), "least-us/job")
			b.ReportMetric(float64(cpuNS(boss.k.PID)-before)/1000/float64(len(all)), "cpu-us/job")
			b.ReportMetric(float64(rssKiB(boss.k.PID)), "rss-KiB")
			boss.conn.Close()
			boss.k.Wait()
		})
	}
}

// cpuNS is the time that the threads of a process have run.
func cpuNS(pid int) int {
	sum := 0
	names, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	for _, name := range names {
		b, _ := os.ReadFile(name)
		if f := strings.Fields(string(b)); len(f) > 0 {
			n, _ := strconv.Atoi(f[0])
			sum += n
		}
	}
	return sum
}

// BenchmarkExec is the floor: fork, exec and wait for one `true`.
func BenchmarkExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSpawn is what it costs to have another keeper ready.
func BenchmarkSpawn(b *testing.B) {
	for b.Loop() {
		boss := newRawBoss(b)
		boss.conn.Close()
		boss.k.Wait()
	}
}

// newRawBoss is a boss that nobody listens for yet; it waits until the keeper
// is warm.
func newRawBoss(b *testing.B) *boss {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p := proc.Place{Dir: b.TempDir(), Instance: "quiet-heron", Node: "n3"}
	k, err := proc.Spawn(self, p, os.Stderr)
	if err != nil {
		b.Fatal(err)
	}
	boss := &boss{t: b, k: k, place: p, conn: wire.NewConn(k.Link)}
	if _, err := boss.conn.Read(); err != nil {
		b.Fatal(err)
	}
	return boss
}

func (b *boss) timeRun(o *order, n int) time.Duration {
	began := time.Now()
	b.run(o)
	for ended := 0; ended < n; {
		f, err := b.conn.Read()
		if err != nil {
			b.t.Fatal(err)
		}
		if f.Kind == wire.KindRanksEnded {
			v, _ := wire.DecodeKeeper(f.Kind, f.Body)
			ended += endsIn(v)
		}
	}
	return time.Since(began)
}

func (b *boss) readUntil(k wire.Kind) {
	for {
		f, err := b.conn.Read()
		if err != nil {
			b.t.Fatal(err)
		}
		if f.Kind == k {
			return
		}
	}
}

func rssKiB(pid int) int {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}
