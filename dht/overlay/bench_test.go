package overlay_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
)

func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// talkers are two hosts of which b answers every frame with the same.
func talkers(b *testing.B, c overlay.Class) (ask func([]byte), answers <-chan struct{}) {
	x, y := newHost(b, "x"), newHost(b, "y")
	x.Learn("y", []string{y.Addr()})
	y.Learn("x", []string{x.Addr()})
	got := make(chan struct{}, 1<<16)
	x.SetHandler(func(filch.NodeName, overlay.Class, []byte) { got <- struct{}{} })
	y.SetHandler(func(from filch.NodeName, c overlay.Class, p []byte) {
		if err := y.SendWait(b.Context(), from, c, p); err != nil {
			b.Error(err)
		}
	})
	ask = func(p []byte) {
		if err := x.SendWait(b.Context(), "y", c, p); err != nil {
			b.Fatal(err)
		}
	}
	ask([]byte("warm"))
	<-got
	return ask, got
}

// BenchmarkRoundTrip is a frame of 128 bytes and its answer; cpu-us/op is that
// of both ends.
func BenchmarkRoundTrip(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run("callers="+string('0'+rune(n/10))+string('0'+rune(n%10)), func(b *testing.B) {
			ask, answers := talkers(b, overlay.Control)
			p := make([]byte, 128)
			b.ReportAllocs()
			b.ResetTimer()
			start := cpuTime(b)
			open := 0
			for range b.N {
				ask(p)
				if open++; open == n {
					<-answers
					open--
				}
			}
			for range open {
				<-answers
			}
			b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
		})
	}
}

// BenchmarkBulk is a stream of frames of 64 KiB in one direction.
func BenchmarkBulk(b *testing.B) {
	x, y := newHost(b, "x"), newHost(b, "y")
	x.Learn("y", []string{y.Addr()})
	got := make(chan struct{}, 1<<16)
	y.SetHandler(func(filch.NodeName, overlay.Class, []byte) { got <- struct{}{} })
	p := make([]byte, 64<<10)
	b.SetBytes(int64(len(p)))
	start := cpuTime(b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range b.N {
			<-got
		}
	}()
	b.ResetTimer()
	for range b.N {
		if err := x.SendWait(b.Context(), "y", overlay.Bulk, p); err != nil {
			b.Fatal(err)
		}
	}
	<-done
	b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
}

// BenchmarkDial is a connection to an address, admitted by both sides and cut
// again; cpu-us/op is that of both ends.
func BenchmarkDial(b *testing.B) {
	x, y := newHost(b, "x"), newHost(b, "y")
	b.ResetTimer()
	start := cpuTime(b)
	for range b.N {
		if _, err := x.Dial(b.Context(), y.Addr()); err != nil {
			b.Fatal(err)
		}
		x.Cut("y")
		for len(x.Peers())+len(y.Peers()) > 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
}

// BenchmarkProbe is a node that proves its name and nothing more.
func BenchmarkProbe(b *testing.B) {
	x, y := newHost(b, "x"), newHost(b, "y")
	b.ResetTimer()
	start := cpuTime(b)
	for range b.N {
		if err := x.Probe(b.Context(), "y", []string{y.Addr()}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
}
