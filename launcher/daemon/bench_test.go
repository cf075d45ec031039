package daemon

import (
	"testing"

	"github.com/filch-hpc/filch/launcher"
	cli "github.com/filch-hpc/filch/launcher/client"
)

func BenchmarkRun(b *testing.B) {
	for _, n := range []int32{1, 4} {
		b.Run("ranks="+string('0'+rune(n)), func(b *testing.B) { benchRun(b, n) })
	}
}

func benchRun(b *testing.B, n int32) {
	cfg := testConfig(b)
	r := start(b, cfg)
	req := request(b, n, "/bin/true")
	for b.Loop() {
		c, err := cli.DialDir(r.cfg.Dir, "test")
		if err != nil {
			b.Fatal(err)
		}
		run, err := c.Submit(req)
		if err != nil {
			b.Fatal(err)
		}
		for {
			v, err := run.Next()
			if err != nil {
				b.Fatal(err)
			}
			if _, ok := v.(launcher.Ended); ok {
				break
			}
		}
		run.Close()
	}
}
