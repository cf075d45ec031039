package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// everydayRuns is how often the proof runs `make test`.
const everydayRuns = 20

// everyday is the promise about the tests that people run.
func everyday() []promise {
	return []promise{{
		line: "14", what: "`make test` as an ordinary user in a fresh clone, the last run beside a loop on every core",
		bar:   fmt.Sprintf("%d of %d runs pass", everydayRuns, everydayRuns),
		check: func() verdict { return repeat(everydayRuns, "scripts/fresh", "test") },
	}}
}

// repeat runs a command so often, the last time beside a loop on every core. It shows
// the output of the first run that fails and stops there.
func repeat(runs int, argv ...string) verdict {
	var longest time.Duration
	for i := range runs {
		stop := func() {}
		if i == runs-1 {
			stop = burn(runtime.NumCPU())
		}
		began := time.Now()
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		stop()
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s\n", out[max(0, len(out)-saidMax):])
			return verdict{measured: fmt.Sprintf("run %d of %d: %v", i+1, runs, err)}
		}
		longest = max(longest, time.Since(began))
	}
	return verdict{measured: fmt.Sprintf("%d runs passed, the longest in %v", runs, longest.Round(time.Second)), ok: true}
}

// burn keeps n cores busy until stop is called.
func burn(n int) (stop func()) {
	var loops []*exec.Cmd
	for range n {
		loop := exec.Command("sh", "-c", "while :; do :; done")
		if err := loop.Start(); err == nil {
			loops = append(loops, loop)
		}
	}
	return func() {
		for _, l := range loops {
			_ = l.Process.Kill()
			_ = l.Wait()
		}
	}
}
