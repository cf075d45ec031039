package main

import (
	"fmt"
	"slices"
)

// stageFigure is what the bench writes about the files of tasks.
type stageFigure struct {
	What   string
	Files  int
	Nodes  int
	MS     []float64
	Bound  float64
	WallMS float64
	Error  string
}

// The bars of the files of tasks.
const (
	inputsBarMS = 300.0
	replayBar   = 1.15 // times the least time of any schedule
)

// staging are the promises about the files of tasks. A bar is for the median of the runs.
func staging() []promise {
	return []promise{
		{
			line: "17a", what: "a task with 500 inputs of one byte from three other nodes: how long the task takes",
			bar:   fmt.Sprintf("< %.0f ms", inputsBarMS),
			bench: func(f *figures) verdict { return judgeStage(f.Stages, "inputs") },
		},
		{
			line: "17b", what: "Sipht_100 replayed with --time-scale 0.02 --size-scale 1e-9 on 4 x 4 slots, beside the least time of any schedule",
			bar:   fmt.Sprintf("<= %.2f x the bound", replayBar),
			bench: func(f *figures) verdict { return judgeStage(f.Stages, "replay") },
		},
	}
}

func judgeStage(list []stageFigure, what string) verdict {
	i := slices.IndexFunc(list, func(f stageFigure) bool { return f.What == what })
	switch {
	case i < 0 || len(list[i].MS) == 0 && list[i].Error == "":
		return verdict{measured: "not measured"}
	case list[i].Error != "":
		return verdict{measured: "not measured: " + list[i].Error}
	}
	f := list[i]
	ms := slices.Sorted(slices.Values(f.MS))
	median := ms[len(ms)/2]
	said := fmt.Sprintf("median %.0f ms of %d runs, %.0f to %.0f", median, len(ms), ms[0], ms[len(ms)-1])
	if what == "inputs" {
		return verdict{measured: said, ok: f.Files == 500 && f.Nodes == 3 && median < inputsBarMS}
	}
	return verdict{
		measured: fmt.Sprintf("%s; %.3f x the bound of %.0f ms; %d files", said, median/max(f.Bound, 0.001), f.Bound, f.Files),
		ok:       f.Bound > 0 && median <= replayBar*f.Bound,
	}
}
