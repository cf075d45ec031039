package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
)

// The bars of calls of Python functions.
const (
	pythonRate  = 5000.0 // trivial calls a second
	pythonPart  = 0.8    // of the rate of a ProcessPoolExecutor
	pythonExtra = 1.0    // ms that one call takes longer than there
)

// pythonFigure is an executor with trivial calls.
type pythonFigure struct {
	Tool  string
	Rate  float64 // calls a second
	MS    float64 // of one call after the other, the median
	Error string  `json:",omitempty"`
}

// python measures filch.Executor on one launcher beside CPython's and Dask's executors: by turns, in
// one process.
func (b *bench) python() (all []pythonFigure) {
	workers := runtime.NumCPU()
	fmt.Printf("\ntrivial calls of Python functions, %d interpreters; medians of 3 alternated runs\n\n%-13s %9s %9s\n", workers, "", "calls/s", "ms a call")
	all, err := b.pythonFigures(workers)
	if err != nil {
		fmt.Printf("not measured: %v\n", err)
		return all
	}
	byTool := map[string]pythonFigure{}
	for _, f := range all {
		byTool[f.Tool] = f
		if f.Error != "" {
			fmt.Printf("%-13s not measured: %s\n", f.Tool, f.Error)
			continue
		}
		fmt.Printf("%-13s %9.0f %9.2f\n", f.Tool, f.Rate, f.MS)
	}
	ours, theirs := byTool["filch"], byTool["ProcessPool"]
	if ours.Rate == 0 || theirs.Rate == 0 {
		return all
	}
	met := map[bool]string{true: "met", false: "not met"}
	fmt.Printf("bar: %.0f calls/s: %s\n", pythonRate, met[ours.Rate >= pythonRate])
	fmt.Printf("bar: %.1f of a ProcessPoolExecutor: %.2f, %s\n", pythonPart, ours.Rate/theirs.Rate, met[ours.Rate >= pythonPart*theirs.Rate])
	fmt.Printf("bar: one call at most %.0f ms more: %.2f, %s\n", pythonExtra, ours.MS-theirs.MS, met[ours.MS-theirs.MS <= pythonExtra])
	return all
}

func (b *bench) pythonFigures(workers int) (all []pythonFigure, err error) {
	m, err := newMeshOf(&ours{exe: b.filch}, b.scratch, "python", 1, workers)
	if err != nil {
		return nil, err
	}
	defer m.close()
	cmd := exec.Command("/usr/bin/python3", filepath.Join("scripts", "python", "bench"), strconv.Itoa(workers))
	cmd.Env = append(append(os.Environ(), m.env...), "FILCH_PROGRAM="+b.filch, "HOME="+b.scratch)
	cmd.Stderr = b.err
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("scripts/python/bench: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var f pythonFigure
		if err := d.Decode(&f); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}
