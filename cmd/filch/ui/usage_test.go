package ui

import (
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

func TestShortSize(t *testing.T) {
	for n, want := range map[int64]string{
		1 << 10: "1K", 640 << 10: "640K", 1023 << 10: "1.00M", 5 << 20: "5.00M", 12<<20 + 300<<10: "12.3M",
		100 << 20: "100M", 1000 << 20: "0.98G", 1280 << 20: "1.25G", 3 << 40: "3.00T", 5000 << 40: "5000T",
	} {
		if got := ShortSize(n); got != want {
			t.Errorf("%d bytes are written %s, want %s", n, got, want)
		}
	}
}

func TestUsageTexts(t *testing.T) {
	for _, c := range []struct {
		used             launcher.Used
		peak, cpu, modes string
	}{
		{launcher.Used{}, "-", "-", ""},
		{launcher.Used{User: 190, System: 2, Peak: 1280 << 20}, "1.25G", "3m12s", "3m12s (3m10s user, 2s system)"},
		{launcher.Used{System: 0.0042, Peak: 9 << 20, AtMost: true}, "<9.00M", "4.2ms", "4.2ms (0s user, 4.2ms system)"},
	} {
		if peak, cpu, modes := Peak(&c.used), CPU(&c.used), Modes(&c.used); peak != c.peak || cpu != c.cpu || modes != c.modes {
			t.Errorf("%+v is written %q, %q, %q", c.used, peak, cpu, modes)
		}
	}
}
