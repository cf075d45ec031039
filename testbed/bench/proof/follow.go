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

// tagFor is how many seconds each case of the benchmark of submit lasts.
const tagFor = 10

// following are the promises about those who follow the output of tasks.
func following() []promise {
	return []promise{{
		line: "15", what: "`filch logs -f` of a task that prints nothing, 1 kB or 1 MB a second, from its node and from another",
		bar:   fmt.Sprintf("the latest line <= %.0f ms late; <= %.0f %% of a core, of a silent task <= %.1f %%", followLateMS, followCore, followSilent),
		check: follow,
	}, {
		line: "15b", what: "`filch submit --tag` of tasks that print a line and end, and with `--ungroup` of one that prints 1 MB a second, from their node and from another",
		bar: fmt.Sprintf("the latest line <= %.0f ms late", followLateMS), check: tag,
	}}
}

// tag runs the benchmark of cmd/filch for submit.
func tag() verdict {
	return benchmarked("^BenchmarkTag$", tagFor, judgeTag)
}

// judgeTag takes the largest figure of the benchmark's lines.
func judgeTag(out string) verdict {
	late, cases := 0.0, 0
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) == 0 || !strings.HasPrefix(f[0], "BenchmarkTag/") {
			continue
		}
		cases++
		for i := 1; i+1 < len(f); i++ {
			if n, err := strconv.ParseFloat(f[i], 64); err == nil && f[i+1] == "ms-worst" {
				late = max(late, n)
			}
		}
	}
	return verdict{measured: fmt.Sprintf("%d cases, at most %.0f ms late", cases, late), ok: cases == 4 && late > 0 && late <= followLateMS}
}

// follow runs the benchmark of cmd/filch.
func follow() verdict {
	return benchmarked("^BenchmarkFollow$/^node=n[13]$/^bytes=(0|1024|1048576)$", followFor, judgeFollow)
}

// benchmarked runs benchmarks of cmd/filch, whose operations take a second, and judges what they
// print.
func benchmarked(pattern string, seconds int, judge func(string) verdict) verdict {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", pattern, "-benchtime", fmt.Sprintf("%dx", seconds), "./cmd/filch")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s\n", out[max(0, len(out)-saidMax):])
		return verdict{measured: err.Error()}
	}
	return judge(string(out))
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
