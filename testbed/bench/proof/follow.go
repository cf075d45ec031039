package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// The bars for filch logs -f.
const (
	followLateMS = 200.0 // of the latest line
	followCore   = 2.0   // percent of a core, for a task that prints 1 MB a second
	followSilent = 0.5   // percent of a core, for a task that prints nothing
)

// followFor is how many seconds each case of the benchmark lasts.
const followFor = 20

// following is the promise about those who follow the output of tasks.
func following() []promise {
	return []promise{{
		line: "15", what: "`filch logs -f` of a task that prints nothing, 1 kB or 1 MB a second, from its node and from another",
		bar:   fmt.Sprintf("the latest line <= %.0f ms late; <= %.0f %% of a core, of a silent task <= %.1f %%", followLateMS, followCore, followSilent),
		check: follow,
	}}
}

// follow runs the benchmark of cmd/filch.
func follow() verdict {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkFollow$/^node=n[13]$/^bytes=(0|1024|1048576)$", "-benchtime", fmt.Sprintf("%dx", followFor), "./cmd/filch")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s\n", out[max(0, len(out)-saidMax):])
		return verdict{measured: err.Error()}
	}
	return judgeFollow(string(out))
}

// judgeFollow takes the largest figures of the benchmark's lines.
func judgeFollow(out string) verdict {
	late, core, silent, cases := 0.0, 0.0, 0.0, 0
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) == 0 || !strings.HasPrefix(f[0], "BenchmarkFollow/") {
			continue
		}
		cases++
		for i := 1; i+1 < len(f); i++ {
			n, err := strconv.ParseFloat(f[i], 64)
			switch {
			case err != nil:
			case f[i+1] == "%core" && strings.Contains(f[0], "/bytes=0-"):
				silent = max(silent, n)
			case f[i+1] == "ms-worst":
				late = max(late, n)
			case f[i+1] == "%core":
				core = max(core, n)
			}
		}
	}
	return verdict{
		measured: fmt.Sprintf("%d cases, at most %.0f ms late, %.1f %% of a core, of a silent task %.2f %%", cases, late, core, silent),
		ok:       cases == 6 && late <= followLateMS && core <= followCore && silent <= followSilent,
	}
}
